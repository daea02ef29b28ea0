// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady diagnose`: what traces, tables and logs say about why guests stall.

use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use steady_decode::TraceEvents;
use steady_diagnose::{
    Analysis, DiagnoseError, Diagnoser, Diagnosis, Effect, Slice, Symbols, VmNotes,
};
use steady_diagnosis_view::{Perfetto, Picture, PictureTable, csv, page, terminal};
use steady_events::Event;
use steady_measures::{WholeFile, write_atomic};
use steady_record::knobs;
use steady_tables::{Incident, ReadError, Tables};
use steady_tracefile::Source;

use crate::arguments::diagnose::Diagnose;
use crate::command::opened::{Opened, of_file, open};
use crate::command::{colour, is_dumb, width};

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of `steady shoot4u`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `steady shoot4u`.
#[derive(Debug, Subcommand)]
pub enum Shoot4u {
    /// Check from traces that no vCPU could use a translation that a completed call had revoked.
    Check(Check),
}

/// `steady shoot4u check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code 5 means that a revoked translation could be used; 2, also that a trace is not enough to
say: it lost events, has no calls, or does not show whose a thread is.

A trace needs the events kvm_shoot4u:*, kvm:kvm_entry and kvm:kvm_exit, from before the VMs start,
or steady:vcpu_load too, as `steady run --trace` records. docs/shoot4u-proof.md says what is checked.

Examples:
  steady run scenarios/shoot4u-faults.toml --engine bochs --variant deferred --trace
  steady shoot4u check out/shoot4u-faults/bochs/deferred-r0/trace.dat
  steady shoot4u check trace.dat --json | jq '.[0].verdict'")]
pub struct Check {
    /// Traces of hosts.
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Print the reports as JSON, one for each trace.
    #[arg(long)]
    pub json: bool,
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows what `steady_diagnose` found: as text, as a page of HTML that needs nothing beside it, as
//! tables of comma-separated values, and as a drawing for Perfetto's viewer.
//!
//! [`terminal`], [`page`] and [`csv`] take a finished diagnosis. [`Perfetto`] and [`Picture`] watch
//! the events while they are analysed. Nothing here finds or judges; what is chosen is words,
//! layout and order. How numbers are written and charts are drawn comes from `steady_report`.

#![forbid(unsafe_code)]

mod charts;
pub mod csv;
pub mod page;
mod perfetto;
mod picture;
pub mod terminal;

pub use perfetto::Perfetto;
pub use picture::{Picture, PictureRow, PictureTable};

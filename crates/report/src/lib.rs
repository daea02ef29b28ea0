// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows results: a table for the terminal, a page of HTML that needs nothing beside it, CSV and
//! Markdown.
//!
//! It computes nothing but layout. Medians, ratios and quantiles come from `steady_measures`; what
//! is chosen here is which measures are shown first, how a number is written, and where ink goes.
//! Several results of one scenario are shown one after the other, each with ratios of its own:
//! engines have different clocks, so nothing is ever divided across them.
//!
//! All layout is in integers, so that the same results give the same bytes everywhere.

#![forbid(unsafe_code)]

mod answer;
pub mod html;
pub mod humane;
mod kernel;
mod pick;
pub mod plain;
pub mod svg;
pub mod terminal;

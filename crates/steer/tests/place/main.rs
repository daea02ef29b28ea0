// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `place` on made hosts.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod made;
mod parts;
mod undoes;

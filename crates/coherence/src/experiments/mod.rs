// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments of the ATTC paper.

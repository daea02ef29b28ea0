// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Placeholder until the room is built.

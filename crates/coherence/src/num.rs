// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Number conversions that cannot lose bits in this crate, kept in one place.

/// A `u64` used as an index. Every caller has masked or bounded it first.
#[expect(
    clippy::cast_possible_truncation,
    reason = "callers pass bounded indices"
)]
#[inline]
pub(crate) const fn ix(value: u64) -> usize {
    value as usize
}

/// The low 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "truncation is the purpose")]
#[inline]
#[must_use]
pub const fn low32(value: u64) -> u32 {
    value as u32
}

/// The low 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "truncation is the purpose")]
#[inline]
pub(crate) const fn low64(value: u128) -> u64 {
    value as u64
}

/// The low 16 bits.
#[expect(clippy::cast_possible_truncation, reason = "truncation is the purpose")]
#[inline]
pub(crate) const fn low16(value: u64) -> u16 {
    value as u16
}

/// A vector position as the `u32` the tables store; four thousand million objects are refused.
#[inline]
pub(crate) fn id32(position: usize) -> u32 {
    u32::try_from(position).expect("fewer than 2^32 objects of one kind")
}

/// `part` in `whole` as basis points (1/100 of a per cent), rounded to nearest; 0 of 0 is 0.
#[must_use]
pub fn basis_points(part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    let scaled = (u128::from(part) * 10_000 + u128::from(whole) / 2) / u128::from(whole);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

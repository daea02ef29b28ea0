// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LEB128 unsigned integers: seven bits a byte, low bits first, high bit set on all but the last.

/// Appends `value`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "only the low seven bits are kept"
)]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes one integer from `bytes` at `*at`; `None` when it is cut or exceeds 64 bits.
pub(crate) fn take(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    let mut shift = 0;
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_boundary_value_comes_back() {
        for value in [0, 1, 127, 128, 16383, 16384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut at = 0;
            assert_eq!(take(&bytes, &mut at), Some(value));
            assert_eq!(at, bytes.len());
        }
    }

    #[test]
    fn a_cut_or_overlong_integer_is_refused() {
        assert_eq!(take(&[0x80, 0x80], &mut 0), None);
        let mut too_long = vec![0xff; 9];
        too_long.push(2);
        assert_eq!(take(&too_long, &mut 0), None);
    }
}

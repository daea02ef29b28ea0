// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one ratio of two measures: of integers, and an integer itself once it is given a scale.

/// A part of a whole: 9 of 12, or 9 beside 12. It is never negative and never by nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    part: u128,
    whole: u128,
}

impl Ratio {
    /// `part` by `whole`; `None` if `part` is negative or `whole` is below 1, of which no ratio
    /// says anything.
    #[must_use]
    pub fn of(part: impl Into<i128>, whole: impl Into<i128>) -> Option<Self> {
        let (part, whole) = (part.into(), whole.into());
        let whole = u128::try_from(whole).ok().filter(|&whole| whole > 0)?;
        let part = u128::try_from(part).ok()?;
        Some(Self { part, whole })
    }

    /// In units of which `scale` make 1, rounded down; `None` if it does not fit.
    #[must_use]
    pub fn floor(self, scale: u64) -> Option<i64> {
        let scaled = self.part.checked_mul(scale.into())?;
        i64::try_from(scaled / self.whole).ok()
    }

    /// In units of which `scale` make 1, rounded to the nearest, halves up; `None` if it does not
    /// fit.
    #[must_use]
    pub fn nearest(self, scale: u64) -> Option<i64> {
        let scaled = self.part.checked_mul(scale.into())?;
        i64::try_from(scaled.checked_add(self.whole / 2)? / self.whole).ok()
    }

    /// In thousandths, rounded to the nearest, halves up.
    #[must_use]
    pub fn permille(self) -> Option<i64> {
        self.nearest(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::Ratio;

    #[test]
    fn a_ratio_is_rounded_to_the_nearest_thousandth_and_halves_up() {
        let permille = |part: i64, whole: i64| Ratio::of(part, whole)?.permille();
        assert_eq!(permille(22, 9048), Some(2));
        assert_eq!(permille(5401, 9048), Some(597));
        assert_eq!(permille(3, 2), Some(1500));
        assert_eq!(permille(1, 2000), Some(1));
        assert_eq!(permille(0, 7), Some(0));
    }

    #[test]
    fn a_scale_rounds_down_where_that_is_asked() {
        assert_eq!(Ratio::of(5, 3).and_then(|ratio| ratio.floor(1)), Some(1));
        assert_eq!(Ratio::of(5, 3).and_then(|ratio| ratio.nearest(1)), Some(2));
    }

    #[test]
    fn nothing_is_a_ratio_to_nothing_nor_below_zero() {
        assert_eq!(Ratio::of(1, 0), None);
        assert_eq!(Ratio::of(1, -1), None);
        assert_eq!(Ratio::of(-1, 1), None);
    }

    #[test]
    fn what_does_not_fit_is_none() {
        let most = Ratio::of(i64::MAX, 1).expect("a ratio");
        assert_eq!(most.floor(1), Some(i64::MAX));
        assert_eq!((most.floor(2), most.nearest(u64::MAX)), (None, None));
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this program works out by its own code alone, and takes long for: kept in the cache under a
//! key of the program's bytes, so that a program that differs in one of them works it out again.
//!
//! Left out: what depends on anything else, as on a tree, an argument or the time.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{Key, cached, ready};
use crate::error::ArtifactError;

/// What the names of entries with the keys of simulations begin with.
pub const SIMULATIONS: &str = "simulations-";
/// The program that runs, also where its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";
/// The file of an entry.
const ANSWER: &str = "answer";

/// The name in the cache of what begins so.
///
/// # Errors
/// [`ArtifactError::Io`] if the program cannot be read.
pub fn name_in_cache(kind: &str) -> Result<String, ArtifactError> {
    let wrong = |error| ArtifactError::io("read", Path::new(PROGRAM), error);
    let mut bytes = File::open(PROGRAM).map_err(wrong)?;
    let mut digest = Sha256::new();
    io::copy(&mut bytes, &mut digest).map_err(wrong)?;
    let mut key = Key::default();
    key.add("program", &digest.finalize());
    Ok(format!("{kind}{}", key.finish()))
}

/// What `work` gives, from the cache if this program has put it there before. A cache that cannot
/// be written costs that time again, and nothing else.
///
/// # Errors
/// As `work`; [`ArtifactError::Damaged`] if what is kept is not as it was written, or
/// [`ArtifactError::Io`] if it cannot be read.
pub fn kept<E: From<ArtifactError>>(
    cache: &Path,
    kind: &str,
    work: impl FnOnce() -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let name = name_in_cache(kind)?;
    let place = cache.join(&name);
    if ready(&place)? {
        let file = place.join(ANSWER);
        return Ok(fs::read(&file).map_err(|error| ArtifactError::io("read", &file, error))?);
    }
    let answer = work()?;
    let _ = cached(cache, &name, |folder| {
        let file = folder.join(ANSWER);
        fs::write(&file, &answer).map_err(|error| ArtifactError::io("write", &file, error))
    });
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "made-up-";

    fn never() -> Result<Vec<u8>, ArtifactError> {
        panic!("it is kept");
    }

    #[test]
    fn the_second_time_nothing_is_worked_out() {
        let cache = tempfile::tempdir().expect("a folder");
        let first = kept(cache.path(), KIND, || Ok::<_, ArtifactError>(b"17".into()));
        let second = kept(cache.path(), KIND, never);
        assert_eq!(first.expect("it is written"), b"17");
        assert_eq!(second.expect("it is read"), b"17");
    }

    #[test]
    fn what_failed_is_not_kept() {
        let cache = tempfile::tempdir().expect("a folder");
        let wrong = || ArtifactError::io("ask", Path::new("x"), io::ErrorKind::Other.into());
        kept(cache.path(), KIND, || Err(wrong())).expect_err("it failed");
        let again = kept(cache.path(), KIND, || Ok::<_, ArtifactError>(b"17".into()));
        assert_eq!(again.expect("it is worked out"), b"17");
    }

    #[test]
    fn what_was_changed_by_hand_is_an_error() {
        let cache = tempfile::tempdir().expect("a folder");
        kept(cache.path(), KIND, || Ok::<_, ArtifactError>(b"17".into())).expect("it is kept");
        let name = name_in_cache(KIND).expect("a program");
        fs::write(cache.path().join(name).join(ANSWER), "18").expect("it is changed");
        let again = kept(cache.path(), KIND, never);
        assert!(matches!(again, Err(ArtifactError::Damaged { .. })));
    }

    #[test]
    fn a_cache_that_takes_nothing_costs_time_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("a-file");
        fs::write(&cache, "").expect("a file");
        let answer = kept(&cache, KIND, || Ok::<_, ArtifactError>(b"17".into()));
        assert_eq!(answer.expect("it is worked out"), b"17");
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do the lists of the indexer hold what a second reading of the files finds, and nothing stays?

use std::path::Path;

use super::*;

type Index = BTreeMap<String, Vec<(u64, usize)>>;

/// The folder that the program made in `directory`.
fn made_in(directory: &Path) -> std::path::PathBuf {
    let mut found = fs::read_dir(directory).expect("the directory");
    let folder = found.next().expect("a folder").expect("its entry").path();
    assert!(found.next().is_none(), "there is one folder");
    folder
}

/// Words and their places as this test reads them.
fn read_files(folder: &Path, files: u64) -> Index {
    let mut index = Index::new();
    for number in 0..files {
        let text = fs::read_to_string(folder.join(number.to_string())).expect("a file");
        for word in text.split_whitespace() {
            let at = word.as_ptr() as usize - text.as_ptr() as usize;
            index.entry(word.to_owned()).or_default().push((number, at));
        }
    }
    index
}

/// What all lists hold; each must be sorted, with each word once.
fn read_lists(folder: &Path) -> (Index, i64) {
    let (mut index, mut lists) = (Index::new(), 0);
    for entry in fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str());
        if !name.is_some_and(|name| name.starts_with("list-")) {
            continue;
        }
        lists += 1;
        let text = fs::read_to_string(&path).expect("a list");
        let words: Vec<&str> = text
            .lines()
            .map(|line| line.split(' ').next().expect("a word"))
            .collect();
        assert!(words.is_sorted_by(|one, next| one < next), "{path:?}");
        for line in text.lines() {
            let (word, places) = line.split_once(' ').expect("places");
            let places = places.split(' ').map(|place| {
                let (number, at) = place.split_once(':').expect("FILE:POSITION");
                (
                    number.parse().expect("a file's number"),
                    at.parse().expect("a position"),
                )
            });
            index.entry(word.to_owned()).or_default().extend(places);
        }
    }
    index.values_mut().for_each(|places| places.sort_unstable());
    (index, lists)
}

#[test]
fn indexer_lists_each_place_of_each_word_once() {
    // Lists of 300 places, so that many are written in the middle of a file.
    for (processes, places) in [("1", "8192"), ("3", "300")] {
        let folder = tempfile::tempdir().expect("a directory");
        let directory = folder.path().to_str().expect("UTF-8");
        let args = [
            "--processes",
            processes,
            "--places",
            places,
            "--files",
            "12",
        ];
        let kept = ["--file-kib", "4", "--keep", "yes", "--directory", directory];
        let report = run("indexer", &[&args[..], &kept].concat());
        let made = made_in(folder.path());
        let (index, lists) = read_lists(&made);
        assert!(index == read_files(&made, 12), "{processes} {places}");
        let values = values(&report);
        assert_eq!(values["indexer.lists"], lists);
        let words: usize = index.values().map(Vec::len).sum();
        assert_eq!(usize::try_from(values["indexer.words"]), Ok(words));
        assert_eq!(report.distributions[0].count(), 12);
    }
}

#[test]
fn indexer_leaves_nothing_behind_whatever_its_end() {
    let folder = tempfile::tempdir().expect("a directory");
    let directory = folder.path().to_str().expect("UTF-8");
    run("indexer", &["--files", "5", "--directory", directory]);
    assert_eq!(fs::read_dir(directory).expect("the directory").count(), 0);
    // A file that is larger than the process may make ends it.
    let ended = Command::new("sh")
        .args(["-c", "ulimit -f 8; trap '' XFSZ; exec \"$@\"", "sh"])
        .arg(common::own_program("indexer"))
        .args(["--file-kib", "64", "--directory", directory])
        .output()
        .expect("sh runs");
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("File too large"));
    assert_eq!(fs::read_dir(directory).expect("the directory").count(), 0);
}

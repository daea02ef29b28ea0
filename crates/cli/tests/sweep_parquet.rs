// SPDX-License-Identifier: Apache-2.0 OR MIT
//! sweep.parquet: each cell is that of sweep.csv, as the crate's own reader finds it, and each
//! column has the type that its cells ask for.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::fs::File;
use std::path::Path;

use assert_cmd::Command;
use parquet::basic::{ConvertedType, Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

/// Two seeds, the greatest that there are: as numbers with a sign they would be negative.
const SWEEP: &str = "coherence sweep bodytrack hybrid.guest_percent=0,100 mode=virtualized,native \
                     --accesses 20000 --warmup 0 --seed 18446744073709551614 --seeds 2 \
                     --schemes kvmtlb,attc -o";

fn sweep(folder: &Path, out: &str) {
    let mut command = Command::cargo_bin("steady").unwrap();
    command.current_dir(folder).args(SWEEP.split_whitespace());
    command.arg(out).assert().success();
}

fn open(path: &Path) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(path).unwrap()).unwrap()
}

/// A cell as sweep.csv has it.
fn cell(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Long(number) => number.to_string(),
        Field::ULong(number) => number.to_string(),
        other => panic!("{other:?} in a sweep"),
    }
}

#[test]
fn every_cell_is_that_of_the_csv() {
    let place = tempfile::tempdir().unwrap();
    sweep(place.path(), "out");
    let csv = std::fs::read_to_string(place.path().join("out/sweep.csv")).unwrap();
    let lines = csv.lines().map(|line| line.split(',').map(str::to_owned));
    let mut expected: Vec<Vec<String>> = lines.map(Iterator::collect).collect();
    let head = expected.remove(0);
    assert_eq!(expected.len(), 2 * 2 * 2 * 2);
    assert!(expected.iter().flatten().any(String::is_empty), "no null");

    let file = open(&place.path().join("out/sweep.parquet"));
    let rows = file.get_row_iter(None).unwrap().map(Result::unwrap);
    let rows = rows.map(|row| {
        let cells = row.get_column_iter();
        let cells = cells.map(|(name, field)| (name.clone(), cell(field)));
        cells.collect::<Vec<_>>()
    });
    let found: Vec<_> = rows.collect();
    let expected = expected
        .into_iter()
        .map(|row| head.iter().cloned().zip(row).collect::<Vec<_>>());
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn numbers_are_of_64_bits_and_names_are_text() {
    let place = tempfile::tempdir().unwrap();
    sweep(place.path(), "out");
    let file = open(&place.path().join("out/sweep.parquet"));
    let columns = file.metadata().file_metadata().schema_descr();
    for column in columns.columns() {
        let expected = match column.name() {
            "mode" | "scheme" => (Type::BYTE_ARRAY, ConvertedType::UTF8, 0),
            "hybrid.guest_percent" => (Type::INT64, ConvertedType::NONE, 0),
            "seed" => (Type::INT64, ConvertedType::UINT_64, 0),
            // A measure may be null.
            _ => (Type::INT64, ConvertedType::NONE, 1),
        };
        let found = (
            column.physical_type(),
            column.converted_type(),
            column.max_def_level(),
        );
        assert_eq!(found, expected, "{}", column.name());
    }
}

#[test]
fn a_sweep_twice_gives_the_same_bytes() {
    let place = tempfile::tempdir().unwrap();
    let read = |out: &str| std::fs::read(place.path().join(out).join("sweep.parquet")).unwrap();
    for out in ["a", "b"] {
        sweep(place.path(), out);
    }
    assert_eq!(read("a"), read("b"));
    // A sweep that goes on writes it again, whole.
    std::fs::write(place.path().join("a/sweep.parquet"), "PAR1").unwrap();
    sweep(place.path(), "a");
    assert_eq!(read("a"), read("b"));
}

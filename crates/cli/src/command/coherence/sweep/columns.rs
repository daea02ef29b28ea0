// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sweep.parquet`: the rows and columns of sweep.csv with types. Numbers are of 64 bits, seeds
//! without a sign, names are text, and what a scheme does not count is null.
//!
//! A key's column has numbers where each of its values prints as it was given, and text otherwise.
//! The file's bytes follow from the rows alone: nothing of the time or the machine is in them.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::rows::Rows;

/// What a column holds.
enum Column<'a> {
    Text(Vec<&'a str>),
    Numbers(Vec<i64>),
    /// The same bits, read without a sign.
    Unsigned(Vec<u64>),
    /// `None` is null.
    Measures(Vec<Option<i64>>),
}

/// The bytes of the file.
pub fn parquet(rows: &Rows<'_>) -> Result<Vec<u8>, ParquetError> {
    let columns = columns(rows);
    let fields = columns
        .iter()
        .map(|(name, column)| column.field(name).map(Arc::new));
    let schema = Type::group_type_builder("sweep")
        .with_fields(fields.collect::<Result<_, _>>()?)
        .build()?;
    let properties = WriterProperties::builder()
        .set_created_by(concat!("steady version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        .build();
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for (_, column) in &columns {
        let mut writer = group.next_column()?.expect("a writer for each column");
        column.write(&mut writer)?;
        writer.close()?;
    }
    group.close()?;
    file.into_inner()
}

/// Each column under its name, in the order of sweep.csv.
fn columns<'a>(rows: &'a Rows<'_>) -> Vec<(&'a str, Column<'a>)> {
    let all = &rows.rows;
    let key = |(at, name): (usize, &&'a str)| {
        let values: Vec<&str> = all.iter().map(|row| row.keys[at].1.as_str()).collect();
        let numbers: Option<Vec<i64>> = values.iter().map(|value| number(value)).collect();
        (*name, numbers.map_or(Column::Text(values), Column::Numbers))
    };
    let mut columns: Vec<_> = rows.keys.iter().enumerate().map(key).collect();
    let seeds = all.iter().map(|row| row.seed).collect();
    let schemes = all.iter().map(|row| row.scheme).collect();
    columns.push(("seed", Column::Unsigned(seeds)));
    columns.push(("scheme", Column::Text(schemes)));
    columns.extend(rows.measures.iter().enumerate().map(|(at, name)| {
        let values = all.iter().map(|row| row.measures[at]).collect();
        (*name, Column::Measures(values))
    }));
    columns
}

/// The number that prints as this text. `08` stays text: 8 is not what sweep.csv has.
fn number(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

impl Column<'_> {
    fn field(&self, name: &str) -> Result<Type, ParquetError> {
        let (physical, logical) = match self {
            Self::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Self::Unsigned(_) => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Self::Numbers(_) | Self::Measures(_) => (Physical::INT64, None),
        };
        let repetition = match self {
            Self::Measures(_) => Repetition::OPTIONAL,
            _ => Repetition::REQUIRED,
        };
        Type::primitive_type_builder(name, physical)
            .with_logical_type(logical)
            .with_repetition(repetition)
            .build()
    }

    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match self {
            Self::Text(values) => {
                let values: Vec<ByteArray> = values.iter().map(|one| (*one).into()).collect();
                let writer = writer.typed::<ByteArrayType>();
                writer.write_batch(&values, None, None)?;
            }
            Self::Numbers(values) => {
                let writer = writer.typed::<Int64Type>();
                writer.write_batch(values, None, None)?;
            }
            Self::Unsigned(values) => {
                let bits: Vec<i64> = values.iter().map(|one| one.cast_signed()).collect();
                let writer = writer.typed::<Int64Type>();
                writer.write_batch(&bits, None, None)?;
            }
            Self::Measures(values) => {
                let held: Vec<i64> = values.iter().copied().flatten().collect();
                let levels: Vec<i16> = values.iter().map(|one| one.is_some().into()).collect();
                let writer = writer.typed::<Int64Type>();
                writer.write_batch(&held, Some(&levels), None)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_number_is_what_prints_as_the_same_text() {
        assert_eq!(["8", "0", "-3"].map(number), [Some(8), Some(0), Some(-3)]);
        assert_eq!(["08", "+8", "1.5", "native", ""].map(number), [None; 5]);
        assert_eq!(number("9223372036854775808"), None);
    }
}

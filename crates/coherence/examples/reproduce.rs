// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the reproduction of the ATTC paper: `reproduce [short|calibrate|beyond]`.

use anyhow::{Result, bail};
use steady_coherence::experiments::{Settings, beyond, calibrate, reproduce};

fn main() -> Result<()> {
    let what = std::env::args().nth(1).unwrap_or_default();
    let begun = std::time::Instant::now();
    match what.as_str() {
        "" | "short" => {
            let settings = if what.is_empty() {
                Settings::full()
            } else {
                Settings::short()
            };
            let done = |at, of| eprintln!("{at} of {of} workloads, {:?}", begun.elapsed());
            print!("{}", reproduce(&settings, &done)?.render());
        }
        "calibrate" => println!("{:#?}", calibrate(&Settings::full())?),
        "beyond" => {
            let settings = Settings {
                accesses: 4_000_000,
                warmup: 1_000_000,
                ..Settings::full()
            };
            beyond(&settings, &mut |line| println!("{}", line.render()))?;
        }
        other => bail!("no experiment `{other}`; there are: short, calibrate, beyond"),
    }
    Ok(())
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands that prepare a run and the one that is measured.
//!
//! A scenario's arguments take the place of the defaults, behind the options that fix the form of
//! the output. The defaults are small: a machine that is emulated inside an emulated machine does
//! some 50 million instructions a second, and a run should last a second or two there.
//!
//! mariadb's arguments are those of sysbench without the last, which says what is done: its tables
//! are filled before the measured run. dedup, pbzip2 and vips work on an input that
//! [`Program::prepare`] makes in the guest. Its size is an argument of our own, which the program
//! does not see: `input-kib=N` (default 512) for dedup and pbzip2, `input-pixels=N` (side of the
//! image, default 256) for vips.

use std::collections::BTreeMap;

use crate::error::ArgumentError;
use crate::program::{JEMALLOC, Kind, OWN_DIRECTORY, Program};
use crate::server;

/// Seed of every generated input: the same bytes in every run.
const INPUT_SEED: &str = "1";

/// What a command depends on.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The arguments in the scenario; empty for the defaults.
    pub args: &'a [String],
    /// CPUs of the guest.
    pub cpus: u32,
    /// Seed for a program that takes one, unless its arguments give one themselves; at least 1.
    pub seed: u32,
    /// A directory with room for files: [`crate::SCRATCH`] in a guest.
    pub scratch: &'a str,
}

/// Whether the client of a server is given the socket of one, which is then elsewhere.
fn names_socket(setting: &Setting<'_>) -> bool {
    let options = ["-s", "--servers", "-B", "--base-uri"];
    let name = |word: &str| word.split('=').next().map(str::to_owned);
    let mut names = setting.args.iter().filter_map(|word| name(word));
    names.any(|name| options.contains(&name.as_str()))
}

/// An argument of our own: its name, default and bounds.
struct InputSize {
    prefix: &'static str,
    default: u32,
    max: u32,
    expected: &'static str,
}

const TEXT_SIZE: InputSize = InputSize {
    prefix: "input-kib=",
    default: 512,
    max: 1 << 20,
    expected: "input-kib=N with N from 1 to 1048576, the size of the text in KiB",
};

const IMAGE_SIZE: InputSize = InputSize {
    prefix: "input-pixels=",
    default: 256,
    max: 65_535,
    expected: "input-pixels=N with N from 1 to 65535, the side of the image in pixels",
};

impl Program {
    /// Commands to run before the measured one, in order.
    ///
    /// # Errors
    /// If the size of the input is not a number in range.
    pub fn prepare(&self, setting: &Setting<'_>) -> Result<Vec<Vec<String>>, ArgumentError> {
        let words = match self.kind {
            Kind::Dedup | Kind::Pbzip2 => {
                let kib = self.input_size(&TEXT_SIZE, setting)?.to_string();
                let kind = if self.kind == Kind::Dedup {
                    "versions"
                } else {
                    "text"
                };
                ["--kind", kind, "--kib", &kib].map(str::to_owned).to_vec()
            }
            Kind::Vips => {
                let side = self.input_size(&IMAGE_SIZE, setting)?.to_string();
                ["--kind", "image", "--width", &side, "--height", &side]
                    .map(str::to_owned)
                    .to_vec()
            }
            Kind::Mariadb => {
                let fill = std::iter::once(self.binaries[0].to_owned())
                    .chain(self.seed_words(setting))
                    .chain(transactions(setting, "prepare"));
                return Ok(vec![server::mariadb(setting.scratch), fill.collect()]);
            }
            Kind::Redis | Kind::Memcached | Kind::Nginx if names_socket(setting) => {
                return Ok(Vec::new());
            }
            Kind::Redis => return Ok(vec![server::redis(setting.scratch)]),
            Kind::Memcached => return Ok(vec![server::memcached(setting.scratch, setting.cpus)]),
            Kind::Nginx => return Ok(vec![server::nginx(setting.scratch, setting.cpus)]),
            _ => return Ok(Vec::new()),
        };
        let mut argv = vec![format!("{OWN_DIRECTORY}/make-input")];
        argv.extend(words);
        argv.extend(["--seed", INPUT_SEED, "--output"].map(str::to_owned));
        argv.push(self.input(setting));
        Ok(vec![argv])
    }

    /// The measured command: path of the program in the image, then its arguments.
    ///
    /// # Errors
    /// As [`Program::prepare`].
    pub fn command(&self, setting: &Setting<'_>) -> Result<Vec<String>, ArgumentError> {
        let cpus = setting.cpus;
        let scratch = setting.scratch;
        let given = self.own_words(setting)?;
        let or = |defaults: Vec<String>| {
            if given.is_empty() {
                defaults
            } else {
                given.clone()
            }
        };
        let words = match self.kind {
            Kind::Own => or(self.own_defaults()),
            Kind::Dedup => {
                let (from, to) = (self.input(setting), format!("{scratch}/dedup.output"));
                joined(&["--input", &from, "--output", &to], given)
            }
            Kind::StressNg | Kind::Jemalloc => {
                let first = ["--metrics-brief", "--temp-path", scratch];
                joined(&first, or(self.stressors(cpus)))
            }
            Kind::Hackbench => or(words("-g 1 -l 50")),
            Kind::Sysbench => or(words(&format!(
                "cpu --cpu-max-prime=200 --time=0 --events=200 --threads={cpus} run"
            ))),
            Kind::Mariadb => transactions(setting, "run"),
            Kind::Redis | Kind::Memcached | Kind::Nginx => self.client(setting),
            // -v prints the time, -k keeps the input, -f overwrites what an earlier run left; the
            // blocks of 100 kB make several of a small input, so that threads have work.
            Kind::Pbzip2 => {
                let mut all = joined(&["-v", "-k", "-f"], or(words(&format!("-b1 -p{cpus}"))));
                all.push(self.input(setting));
                all
            }
            Kind::Dbench => joined(&["-c", self.data[0], "-D", scratch], or(words("-t 2 2"))),
            // One summary however many processes, and nothing but it on standard output.
            Kind::Fio => {
                let directory = format!("--directory={scratch}");
                joined(
                    &[
                        "--output-format=json",
                        "--eta=never",
                        "--group_reporting",
                        &directory,
                    ],
                    or(words(
                        "--name=mixed --rw=randrw --bs=4k --size=4M --ioengine=psync",
                    )),
                )
            }
            Kind::Vips => {
                let mut all = or(words("gaussblur 3"));
                let files = [self.input(setting), format!("{scratch}/vips.output.v")];
                // "vips OPERATION INPUT OUTPUT PARAMETERS".
                all.splice(1..1, files);
                all
            }
        };
        let path = match self.binaries.first() {
            Some(path) => (*path).to_owned(),
            None => format!("{OWN_DIRECTORY}/{}", self.own_binaries[0]),
        };
        let seed = self.seed_words(setting);
        Ok(std::iter::once(path).chain(seed).chain(words).collect())
    }

    /// Arguments of a server's client.
    fn client(&self, setting: &Setting<'_>) -> Vec<String> {
        let cpus = setting.cpus;
        let (first, option, defaults, last) = match self.kind {
            Kind::Redis => {
                let defaults = format!("-t set,get -n 1000 -c 8 --threads {cpus}");
                ("--csv", "-s ", defaults, "")
            }
            Kind::Memcached => ("", "-s ", format!("-t get -c {cpus} -e 500"), ""),
            _ => {
                let defaults = format!("-n 1000 -c {} -t {cpus}", 2 * cpus);
                ("--h1", "--base-uri=unix:", defaults, "http://localhost/")
            }
        };
        let mut all = words(first);
        if !names_socket(setting) {
            let socket = server::socket(setting.scratch, self.name);
            all.extend(format!("{option}{socket}").split(' ').map(str::to_owned));
        }
        match setting.args {
            [] => all.extend(words(&defaults)),
            given => all.extend_from_slice(given),
        }
        all.extend(words(last));
        all
    }

    /// The option that seeds the program, where it has one and the arguments do not give it.
    fn seed_words(&self, setting: &Setting<'_>) -> Vec<String> {
        let option = match (self.kind, self.name) {
            (Kind::Own, "shootdown" | "pagecache" | "indexer" | "staleness" | "frames")
            | (Kind::StressNg | Kind::Jemalloc, _) => "--seed",
            (Kind::Sysbench | Kind::Mariadb, _) => "--rand-seed",
            (Kind::Fio, _) => "--randseed",
            _ => return Vec::new(),
        };
        let given = |word: &String| word.split('=').next() == Some(option);
        if setting.args.iter().any(given) {
            return Vec::new();
        }
        // sysbench takes a positive int, and 0 for a seed by the clock.
        let seed = match self.kind {
            Kind::Sysbench | Kind::Mariadb => (setting.seed % 0x7fff_ffff).max(1),
            _ => setting.seed,
        };
        vec![format!("{option}={seed}")]
    }

    /// Environment of the measured command, beside what every program gets.
    #[must_use]
    pub fn environment(&self, setting: &Setting<'_>) -> BTreeMap<String, String> {
        let mut environment = BTreeMap::new();
        if self.kind == Kind::Vips {
            environment.insert("VIPS_CONCURRENCY".to_owned(), setting.cpus.to_string());
        }
        // Memory that is freed goes back to the kernel at once, by MADV_DONTNEED.
        if self.kind == Kind::Jemalloc {
            environment.insert("LD_PRELOAD".to_owned(), JEMALLOC.to_owned());
            let decay = "dirty_decay_ms:0,muzzy_decay_ms:0";
            environment.insert("MALLOC_CONF".to_owned(), decay.to_owned());
        }
        environment
    }

    /// What stress-ng runs by default.
    fn stressors(&self, cpus: u32) -> Vec<String> {
        words(&match self.kind {
            // One process, whose threads allocate and free at random.
            Kind::Jemalloc => format!("--malloc 1 --malloc-pthreads {cpus} --malloc-ops 2000"),
            _ => format!("--tlb-shootdown {cpus} --tlb-shootdown-ops 200"),
        })
    }

    fn own_defaults(&self) -> Vec<String> {
        match self.name {
            "shootdown" => words("--operations 500 --time-limit-ms 20000"),
            "pagecache" => words("--records 500 --time-limit-ms 20000"),
            "indexer" => words("--files 64 --time-limit-ms 20000"),
            "pingpong" => words("--operations 500 --time-limit-ms 20000"),
            "staleness" => words("--operations 500 --time-limit-ms 20000"),
            // spin: until it must stop.
            _ => Vec::new(),
        }
    }

    /// Path of the generated input.
    fn input(&self, setting: &Setting<'_>) -> String {
        let suffix = if self.kind == Kind::Vips { ".ppm" } else { "" };
        format!("{}/{}.input{suffix}", setting.scratch, self.name)
    }

    fn size_rule(&self) -> Option<&'static InputSize> {
        match self.kind {
            Kind::Dedup | Kind::Pbzip2 => Some(&TEXT_SIZE),
            Kind::Vips => Some(&IMAGE_SIZE),
            _ => None,
        }
    }

    /// The scenario's arguments without those of our own, which are checked on the way.
    fn own_words(&self, setting: &Setting<'_>) -> Result<Vec<String>, ArgumentError> {
        let Some(rule) = self.size_rule() else {
            return Ok(setting.args.to_vec());
        };
        self.input_size(rule, setting)?;
        let kept = setting
            .args
            .iter()
            .filter(|word| !word.starts_with(rule.prefix));
        Ok(kept.cloned().collect())
    }

    fn input_size(&self, rule: &InputSize, setting: &Setting<'_>) -> Result<u32, ArgumentError> {
        let mut size = rule.default;
        for word in setting.args {
            let Some(number) = word.strip_prefix(rule.prefix) else {
                continue;
            };
            size = number
                .parse()
                .ok()
                .filter(|size| (1..=rule.max).contains(size))
                .ok_or_else(|| ArgumentError {
                    program: self.name,
                    argument: word.clone(),
                    expected: rule.expected,
                })?;
        }
        Ok(size)
    }
}

/// sysbench's arguments for `what` is done with the tables: `prepare` fills, `run` is measured.
fn transactions(setting: &Setting<'_>, what: &str) -> Vec<String> {
    let socket = format!(
        "--mysql-socket={}",
        server::socket(setting.scratch, "mariadb")
    );
    let server = ["--db-driver=mysql", "--mysql-user=root", &socket];
    let mut all = if setting.args.is_empty() {
        words(&format!(
            "oltp_read_write --table-size=1000 --threads={} --events=200 --time=0",
            setting.cpus
        ))
    } else {
        setting.args.to_vec()
    };
    all.extend(server.map(str::to_owned));
    all.push(what.to_owned());
    all
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn joined(first: &[&str], rest: Vec<String>) -> Vec<String> {
    first
        .iter()
        .map(|&word| word.to_owned())
        .chain(rest)
        .collect()
}

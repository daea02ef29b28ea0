// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of known programs: what each needs in the guest's image.

use steady_measures::WorkloadReport;

use crate::error::{ParseError, UnknownProgram};
use crate::output::Output;
use crate::parse;

/// Where the image holds our own programs.
pub const OWN_DIRECTORY: &str = "/usr/bin";

/// Where a guest has room for files: a file system on its virtio disk, or memory without one.
pub const SCRATCH: &str = "/data";

/// The allocator that takes the place of glibc's.
pub(crate) const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";

/// The server of the database, and the shell that starts it.
pub(crate) const MARIADBD: &str = "/usr/sbin/mariadbd";
pub(crate) const BUSYBOX: &str = "/usr/bin/busybox";
/// The server of redis, by the name that it has in the package of its tools.
pub(crate) const REDIS: &str = "/usr/bin/redis-check-rdb";
pub(crate) const MEMCACHED: &str = "/usr/bin/memcached";
pub(crate) const NGINX: &str = "/usr/sbin/nginx";

/// Which rules apply to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Own,
    Dedup,
    StressNg,
    Jemalloc,
    Hackbench,
    Sysbench,
    Mariadb,
    Redis,
    Memcached,
    Nginx,
    Pbzip2,
    Dbench,
    Fio,
    Vips,
}

/// A program that a guest can run.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Its name in a scenario and in its report.
    pub name: &'static str,
    /// The Debian package that holds it, or several separated by spaces; `None` for our own.
    pub package: Option<&'static str>,
    /// ELF programs that the image must hold, by their path there and on a Debian host: first the
    /// one that is run, behind it libraries that are loaded into it.
    pub binaries: &'static [&'static str],
    /// Programs out of `workloads/` that the image must hold in [`OWN_DIRECTORY`].
    pub own_binaries: &'static [&'static str],
    /// Other files that the image must hold, by their path there and on a Debian host.
    pub data: &'static [&'static str],
    /// Whether [`SCRATCH`] should be a disk, because I/O is what the program is about.
    pub needs_disk: bool,
    pub(crate) kind: Kind,
}

/// Every known program: our own first, then Debian's.
pub const PROGRAMS: &[Program] = &[
    own("shootdown", &["shootdown"]),
    own("pagecache", &["pagecache"]),
    own("indexer", &["indexer"]),
    own("pingpong", &["pingpong"]),
    own("spin", &["spin"]),
    own("staleness", &["staleness"]),
    own("ticks", &["ticks"]),
    own("hotplug", &["hotplug"]),
    own("frames", &["frames"]),
    Program {
        kind: Kind::Dedup,
        ..own("dedup", &["dedup", "make-input"])
    },
    own("hostload", &["hostload"]),
    debian(
        "stress-ng",
        Kind::StressNg,
        "stress-ng",
        &["/usr/bin/stress-ng"],
    ),
    debian(
        "jemalloc",
        Kind::Jemalloc,
        "stress-ng libjemalloc2",
        &["/usr/bin/stress-ng", JEMALLOC],
    ),
    debian(
        "hackbench",
        Kind::Hackbench,
        "rt-tests",
        &["/usr/bin/hackbench"],
    ),
    debian(
        "sysbench",
        Kind::Sysbench,
        "sysbench",
        &["/usr/bin/sysbench"],
    ),
    Program {
        data: &[
            "/usr/share/mysql/charsets/Index.xml",
            "/usr/share/mysql/english/errmsg.sys",
            "/usr/share/sysbench/oltp_common.lua",
            "/usr/share/sysbench/oltp_point_select.lua",
            "/usr/share/sysbench/oltp_read_only.lua",
            "/usr/share/sysbench/oltp_read_write.lua",
            "/usr/share/sysbench/oltp_write_only.lua",
        ],
        needs_disk: true,
        ..debian(
            "mariadb",
            Kind::Mariadb,
            "mariadb-server-core sysbench busybox-static",
            &["/usr/bin/sysbench", MARIADBD, BUSYBOX],
        )
    },
    debian(
        "redis",
        Kind::Redis,
        "redis-tools busybox-static",
        &["/usr/bin/redis-benchmark", REDIS, BUSYBOX],
    ),
    debian(
        "memcached",
        Kind::Memcached,
        "memcached libmemcached-tools busybox-static",
        &["/usr/bin/memcslap", MEMCACHED, BUSYBOX],
    ),
    debian(
        "nginx",
        Kind::Nginx,
        "nginx nghttp2-client busybox-static",
        &["/usr/bin/h2load", NGINX, BUSYBOX],
    ),
    Program {
        own_binaries: &["make-input"],
        ..debian("pbzip2", Kind::Pbzip2, "pbzip2", &["/usr/bin/pbzip2"])
    },
    Program {
        data: &["/usr/share/dbench/client.txt"],
        needs_disk: true,
        ..debian("dbench", Kind::Dbench, "dbench", &["/usr/bin/dbench"])
    },
    Program {
        needs_disk: true,
        ..debian("fio", Kind::Fio, "fio", &["/usr/bin/fio"])
    },
    Program {
        own_binaries: &["make-input"],
        ..debian("vips", Kind::Vips, "libvips-tools", &["/usr/bin/vips"])
    },
];

const fn own(name: &'static str, own_binaries: &'static [&'static str]) -> Program {
    Program {
        name,
        package: None,
        binaries: &[],
        own_binaries,
        data: &[],
        needs_disk: false,
        kind: Kind::Own,
    }
}

const fn debian(
    name: &'static str,
    kind: Kind,
    package: &'static str,
    binaries: &'static [&'static str],
) -> Program {
    Program {
        name,
        package: Some(package),
        binaries,
        own_binaries: &[],
        data: &[],
        needs_disk: false,
        kind,
    }
}

/// The program of this name.
///
/// # Errors
/// If there is none; the error names the nearest one, where one is near.
pub fn find(name: &str) -> Result<&'static Program, UnknownProgram> {
    if let Some(program) = PROGRAMS.iter().find(|program| program.name == name) {
        return Ok(program);
    }
    let known: Vec<&'static str> = PROGRAMS.iter().map(|program| program.name).collect();
    Err(UnknownProgram {
        name: name.to_owned(),
        nearest: steady_nearest::nearest(name, known.iter().copied()),
        known,
    })
}

impl Program {
    /// What the output of the measured command says.
    ///
    /// Every report has `time`, the wall clock of the command; the other measures are named in the
    /// documentation of the program's parser, and all begin with the program's name except
    /// `throughput`.
    ///
    /// # Errors
    /// If the program failed, or printed something else than expected; the error quotes the line.
    pub fn parse(&self, output: &Output<'_>) -> Result<WorkloadReport, ParseError> {
        parse::report(self, output)
    }
}

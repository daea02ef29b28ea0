// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest programs that a workload may name: the one table of them.

/// Where a guest program comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// C source in `workloads/`.
    Own,
    /// The named Debian package, or several separated by spaces.
    Debian(&'static str),
}

/// A guest program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The name in a scenario, and of the executable in the guest.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether it works on files in `/data`, so that the VM needs `disk_mib`.
    pub needs_disk: bool,
    /// Whether it can run until it is stopped, so that a background VM may have it.
    pub background: bool,
}

/// Every known guest program: our own first, then Debian's.
pub const PROGRAMS: &[Program] = &[
    own(
        "shootdown",
        "TLB shootdown latency seen by the initiator, 1 to n targets",
    ),
    own(
        "pagecache",
        "page-cache and mmap_lock contention, in the manner of ebizzy",
    ),
    own(
        "indexer",
        "text indexing by many processes, in the manner of psearchy",
    ),
    own("pingpong", "wake-up latency between two threads"),
    own("spin", "computes on every vCPU and never sleeps").endless(),
    own(
        "staleness",
        "looks for writes that land in pages that were taken away",
    ),
    own(
        "ticks",
        "scheduler ticks against time, and how late timers are",
    ),
    own(
        "hotplug",
        "scheduler ticks of a CPU that goes off-line and comes back",
    ),
    own(
        "frames",
        "which guest-physical frames a program gets, before and after a day's kind of work",
    ),
    own(
        "dedup",
        "deduplicating compressor in the shape of PARSEC's, a buffer mapped for each block",
    ),
    own(
        "hostload",
        "what a host does beside its VMs: tasks, sampling, a look over a process's memory",
    )
    .endless(),
    debian(
        "stress-ng",
        "stress-ng",
        "stressors: tlb-shootdown, mmap, futex and others",
    )
    .endless(),
    debian(
        "jemalloc",
        "stress-ng libjemalloc2",
        "threads that allocate and free, under an allocator that gives memory back at once",
    )
    .endless(),
    debian(
        "hackbench",
        "rt-tests",
        "groups of tasks that message each other",
    ),
    debian(
        "sysbench",
        "sysbench",
        "threads, mutex, memory and CPU tests",
    )
    .endless(),
    debian(
        "mariadb",
        "mariadb-server-core sysbench busybox-static",
        "transactions on a database, by sysbench",
    )
    .on_disk(),
    debian(
        "redis",
        "redis-tools busybox-static",
        "requests to a key-value store in memory, by redis-benchmark",
    )
    .endless(),
    debian(
        "memcached",
        "memcached libmemcached-tools busybox-static",
        "requests to a cache in memory, by memcslap",
    ),
    debian(
        "nginx",
        "nginx nghttp2-client busybox-static",
        "requests to a web server, by h2load",
    )
    .endless(),
    debian(
        "pbzip2",
        "pbzip2",
        "parallel compression, in place of the PARSEC program dedup",
    ),
    debian(
        "dbench",
        "dbench",
        "file server load on a local file system",
    )
    .endless()
    .on_disk(),
    debian("fio", "fio", "block and file I/O")
        .endless()
        .on_disk(),
    debian(
        "vips",
        "libvips-tools",
        "parallel image processing, as in the PARSEC program vips",
    ),
];

const fn own(name: &'static str, about: &'static str) -> Program {
    Program {
        name,
        about,
        origin: Origin::Own,
        needs_disk: false,
        background: false,
    }
}

const fn debian(name: &'static str, package: &'static str, about: &'static str) -> Program {
    Program {
        name,
        about,
        origin: Origin::Debian(package),
        needs_disk: false,
        background: false,
    }
}

impl Program {
    const fn endless(self) -> Self {
        Self {
            background: true,
            ..self
        }
    }

    const fn on_disk(self) -> Self {
        Self {
            needs_disk: true,
            ..self
        }
    }

    /// The program of this name, if there is one.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|program| program.name == name)
    }
}

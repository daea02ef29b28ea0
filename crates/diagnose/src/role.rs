// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a thread of the host is there for, by its name: it polls its pCPU on purpose, it records,
//! or the kernel gives it work.
//!
//! Left out: threads of VMMs, and all whose names say nothing.

/// What gives a thread of the kernel its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A limit of heat or power (`idle_inject`, `kidle_inj`).
    Power,
    /// CPUs that are stopped, moved or taken away, and their watchdog.
    Cpus,
    /// Work items of one pCPU.
    Items,
    /// Work items of no pCPU, which go where their workqueue lets them.
    UnboundItems,
    /// Timers of one pCPU.
    Timers,
    /// RCU callbacks of one pCPU.
    RcuOfOne,
    /// RCU callbacks of any.
    Rcu,
    /// Memory is short.
    Reclaim,
    /// Memory is in pieces.
    Compaction,
    /// Pages become huge pages.
    HugePages,
    /// Pages of the same contents become one (KSM).
    SamePages,
    /// KVM splits huge pages and joins them again (`nx_huge_pages`).
    NxPages,
    /// A RAID writes, is checked or rebuilt.
    Raid,
}

impl Work {
    /// Whether its thread stays on its pCPU, or goes where no tool moves it.
    #[must_use]
    pub fn stays(self) -> bool {
        matches!(
            self,
            Self::Power
                | Self::Cpus
                | Self::Items
                | Self::UnboundItems
                | Self::Timers
                | Self::RcuOfOne
        )
    }
}

/// What a thread is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It never sleeps, so that packets or requests need not wake it: OVS, DPDK, VPP, SPDK.
    Polls,
    /// It records what happens.
    Records,
    /// It is the kernel's.
    Kernel(Work),
    /// Its name says nothing.
    Unknown,
}

/// How names begin, and whether that is all of them.
const NAMES: [(&str, bool, Role); 40] = [
    // `lcore-worker-3` and `dpdk-worker3` of DPDK's EAL,
    // `vpp_wk_0` of VPP, `reactor_3` of SPDK.
    ("pmd", false, Role::Polls),
    ("testpmd", false, Role::Polls),
    ("dpdk-", false, Role::Polls),
    ("lcore-", false, Role::Polls),
    ("rte-worker", false, Role::Polls),
    ("vpp_main", true, Role::Polls),
    ("vpp_wk_", false, Role::Polls),
    ("reactor_", false, Role::Polls),
    ("spdk_", false, Role::Polls),
    ("trace-cmd", true, Role::Records),
    ("perf", true, Role::Records),
    ("bpftrace", true, Role::Records),
    ("stapio", true, Role::Records),
    ("steady", true, Role::Records),
    ("traced_probes", true, Role::Records),
    ("lttng-consumerd", true, Role::Records),
    ("idle_inject", true, Role::Kernel(Work::Power)),
    // `intel_powerclamp` before Linux 4.10.
    ("kidle_inj", true, Role::Kernel(Work::Power)),
    ("migration", true, Role::Kernel(Work::Cpus)),
    ("cpuhp", true, Role::Kernel(Work::Cpus)),
    ("stopper", true, Role::Kernel(Work::Cpus)),
    ("watchdog", true, Role::Kernel(Work::Cpus)),
    ("irq_work", true, Role::Kernel(Work::Items)),
    ("kworker", true, Role::Kernel(Work::Items)),
    ("kworker/u", false, Role::Kernel(Work::UnboundItems)),
    ("kworker/", false, Role::Kernel(Work::Items)),
    ("ktimers", true, Role::Kernel(Work::Timers)),
    ("rcuc", true, Role::Kernel(Work::RcuOfOne)),
    ("rcuop", true, Role::Kernel(Work::Rcu)),
    ("rcuos", true, Role::Kernel(Work::Rcu)),
    ("rcuog", true, Role::Kernel(Work::Rcu)),
    ("rcu_preempt", true, Role::Kernel(Work::Rcu)),
    ("rcu_sched", true, Role::Kernel(Work::Rcu)),
    ("kswapd", false, Role::Kernel(Work::Reclaim)),
    ("kcompactd", false, Role::Kernel(Work::Compaction)),
    ("khugepaged", true, Role::Kernel(Work::HugePages)),
    ("ksmd", true, Role::Kernel(Work::SamePages)),
    ("kvm-nx-", false, Role::Kernel(Work::NxPages)),
    ("md", false, Role::Kernel(Work::Raid)),
    ("dm-raid", false, Role::Kernel(Work::Raid)),
];

/// What a thread is there for. A thread of the kernel for each pCPU has a name without that one's
/// number here; a program's with such a name is called `program NAME`, and has none of these.
#[must_use]
pub fn role_of(name: &str) -> Role {
    let name = name.split(" (").next().unwrap_or(name);
    let is = |&&(text, whole, _): &&(&str, bool, Role)| {
        // Most names begin with another letter than most rows: it is compared first, since this
        // is asked at each switch.
        if text.as_bytes().first() != name.as_bytes().first() {
            return false;
        }
        let Some(rest) = name.strip_prefix(text) else {
            return false;
        };
        match text {
            // `pmd-c03/id:8` and `pmd61` of Open vSwitch; `md0_raid6` and `md127_resync`.
            "pmd" => rest.starts_with(|letter: char| letter == '-' || letter.is_ascii_digit()),
            "md" => {
                let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
                rest.starts_with("_raid") || rest.starts_with("_re")
            }
            _ => !whole || rest.is_empty(),
        }
    };
    NAMES.iter().find(is).map_or(Role::Unknown, |row| row.2)
}

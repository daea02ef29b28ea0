// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes traces, gives the diagnosis.

use std::collections::BTreeMap;

use steady_events::{About, Event, EventSource, Loss, ReadError, RipClass};

use crate::analysis::{Analysis, Effect};
use crate::build::{Builder, Names};
use crate::clock::{Clock, Order};
use crate::findings;
use crate::judged;
use crate::missing;
use crate::model::{
    Diagnosis, Finding, SCHEMA, SymbolsTable, TraceDiagnosis, Unfound, VERSION, VmTable,
    ground_word,
};
use crate::notes::VmNotes;
use crate::symbols::{Shift, Symbols};
use crate::vmm::Vmms;

/// Why a trace cannot be diagnosed.
#[derive(Debug, thiserror::Error)]
pub enum DiagnoseError {
    /// The source cannot be read.
    #[error(transparent)]
    Trace(ReadError),
    /// Who looks on could not go on.
    #[error("cannot write {what}")]
    Watch {
        /// What.
        what: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// There is nothing of KVM in the trace, nor a shootdown.
    #[error("{name}: it has {events}{lost}; {cure}")]
    NothingToSay {
        /// The trace.
        name: String,
        /// How many events it has, in words.
        events: String,
        /// What is missing from it, in words and brackets; nothing if nothing is.
        lost: String,
        /// What to do.
        cure: &'static str,
    },
    /// The slice begins behind the trace's end.
    #[error("{name}: no event lies in the time that is wanted; the trace lasts {lasts_ms} ms")]
    OutsideTime {
        /// The trace.
        name: String,
        /// From its first event to its last.
        lasts_ms: u64,
    },
    /// Its times are those since the record before.
    #[error(
        "{name}: its times are differences (perf script --deltatime): print it again without that \
         option, as perf script does by itself, or give the file that perf record wrote"
    )]
    Differences {
        /// The trace.
        name: String,
    },
    /// No VM of any trace is wanted.
    #[error("no VM of the traces has the name and the vCPU that are wanted; there are: {there}")]
    NoneWanted {
        /// The VMs of the traces with their vCPUs.
        there: String,
    },
}

/// Which part of a trace is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slice {
    /// From which time on, in nanoseconds after the trace's first event.
    pub from_ns: Option<u64>,
    /// To which time, in nanoseconds after it.
    pub to_ns: Option<u64>,
    /// Only these VMs, by name.
    pub vms: Vec<String>,
    /// Only these vCPUs, by number.
    pub vcpus: Vec<u32>,
}

/// The wait for which a recording was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sought {
    /// The wait in words.
    pub wait: String,
    /// The vCPU's thread.
    pub tid: i32,
    /// How long it waited at least, in nanoseconds.
    pub length_ns: u64,
}

impl Sought {
    /// The same where no wait in these tables is half as long, or may be.
    fn unfound(&self, vms: &[VmTable]) -> Option<Unfound> {
        let waits = vms.iter().flat_map(|vm| &vm.waits);
        let waits = waits.flat_map(|waits| &waits.longest);
        let rows = vms.iter().flat_map(|vm| &vm.stalls);
        let lost = rows.filter(|row| row.kind == "in-loss").map(|row| &row.at);
        let own = waits.chain(lost).filter(|at| at.tid == Some(self.tid));
        let found_ns = own.map(|at| at.length_ns).max().unwrap_or(0);
        (found_ns < self.length_ns / 2).then(|| Unfound {
            wait: self.wait.clone(),
            tid: self.tid,
            length_ns: self.length_ns,
            found_ns,
        })
    }
}

/// Collects what traces say.
#[derive(Debug)]
pub struct Diagnoser<'s> {
    /// The guests' symbols, and the file that they are from.
    pub symbols: Option<(&'s Symbols, String)>,
    /// What is looked at.
    pub slice: Slice,
    /// Ticks in a second of the guests' kernels.
    pub tick_hz: u64,
    /// What the recording of the next trace noted of its VMs.
    pub notes: Option<VmNotes>,
    /// Whether all pCPUs' records begin with the next trace's first: what came before was cut off
    /// all of them, and not off each when its ring was full.
    pub whole: bool,
    /// The wait for which the next trace was written.
    pub sought: Option<Sought>,
    /// Knobs of the traced host and their values, if they are known.
    pub knobs: BTreeMap<String, String>,
    traces: Vec<TraceDiagnosis>,
    /// By trace, findings about single vCPUs.
    alone: Vec<Vec<Finding>>,
    /// All VMs, wanted or not, with their vCPUs.
    there: Vec<String>,
}

impl<'s> Diagnoser<'s> {
    /// Nothing seen yet; a tick of 250 Hz.
    #[must_use]
    pub fn new() -> Self {
        Self {
            symbols: None,
            slice: Slice::default(),
            tick_hz: 250,
            notes: None,
            whole: false,
            sought: None,
            knobs: BTreeMap::new(),
            traces: Vec::new(),
            alone: Vec::new(),
            there: Vec::new(),
        }
    }

    /// Reads a source of events to its end. `watch` sees every event with what it decided.
    ///
    /// # Errors
    /// [`DiagnoseError`]. A trace that is cut off or damaged is not an error: what could be read
    /// counts.
    pub fn trace<S: EventSource + ?Sized>(
        &mut self,
        name: &str,
        source: &mut S,
        watch: &mut dyn FnMut(&Event<'_>, Effect, &Analysis) -> std::io::Result<()>,
    ) -> Result<(), DiagnoseError> {
        let mut analysis = Analysis::default();
        analysis.boosts.with_returns = source.about().boost_returns;
        analysis.machine.noted = self
            .notes
            .as_ref()
            .map(VmNotes::by_thread)
            .unwrap_or_default();
        analysis.servers.vmms = Vmms::new(&analysis.machine.noted);
        analysis.rivals.before.whole = self.whole;
        let vms = self.notes.iter().flat_map(|notes| &notes.vms);
        analysis.machine.noted_processes = vms.map(|vm| vm.process).collect();
        analysis.rivals.placement.noted =
            self.notes.as_ref().map(VmNotes::pcpus).unwrap_or_default();
        let (mut zero_ns, mut lasts_ns) = (None, 0);
        let (mut given, mut latest_ns, mut back) = (0_u64, 0, 0_u64);
        let mut clock = Clock::default();
        let mut order = Order::default();
        while let Some(mut event) = source.next().map_err(DiagnoseError::Trace)? {
            let read_ns = event.time_ns;
            clock.straighten(&mut event);
            order.event(read_ns, event.time_ns);
            let zero_ns = *zero_ns.get_or_insert(event.time_ns);
            let at_ns = event.time_ns.saturating_sub(zero_ns);
            lasts_ns = at_ns.max(lasts_ns);
            if self.slice.from_ns.is_some_and(|from_ns| at_ns < from_ns) {
                continue;
            }
            if self.slice.to_ns.is_some_and(|to_ns| at_ns > to_ns) {
                break;
            }
            given += 1;
            back += u64::from(read_ns < latest_ns);
            latest_ns = latest_ns.max(read_ns);
            let effect = analysis.event(&event);
            watch(&event, effect, &analysis).map_err(|source| DiagnoseError::Watch {
                what: "what was drawn of the trace".to_owned(),
                source,
            })?;
        }
        if order.are_differences() {
            let name = name.to_owned();
            return Err(DiagnoseError::Differences { name });
        }
        analysis.clock_set_back = clock.set_back;
        analysis.late_permille = order.late_permille();
        analysis.finish();
        assert_eq!(given, analysis.seen.all, "each event is counted once");
        let loss = source.loss();
        loss.check();
        debug_assert!(
            back <= loss.out_of_order,
            "a source counts the events that come after later ones: {back} came, it counts {}",
            loss.out_of_order
        );
        self.refuse_empty(name, &analysis, &loss, zero_ns.map(|_| lasts_ns))?;
        let zero_ns = zero_ns.unwrap_or(0);
        let trace = self.build(name, &source.about(), &loss, &analysis, zero_ns);
        self.traces.push(trace);
        Ok(())
    }

    /// Refuses a trace without anything to judge; `lasts_ns` where it has events at all.
    fn refuse_empty(
        &self,
        name: &str,
        analysis: &Analysis,
        loss: &Loss,
        lasts_ns: Option<u64>,
    ) -> Result<(), DiagnoseError> {
        let nothing = analysis.machine.vcpus.is_empty()
            && analysis.shootdowns.latency_ns.count() + analysis.shootdowns.unfinished == 0;
        if let (0, Some(lasts_ns)) = (analysis.seen.all, lasts_ns) {
            return Err(DiagnoseError::OutsideTime {
                name: name.to_owned(),
                lasts_ms: lasts_ns / 1_000_000,
            });
        }
        if nothing {
            return Err(DiagnoseError::NothingToSay {
                name: name.to_owned(),
                events: match analysis.seen.all {
                    0 => "no event of KVM or the scheduler".to_owned(),
                    count => {
                        format!("events ({count}), and none shows a vCPU or a TLB shootdown")
                    }
                },
                lost: missing::words(loss),
                cure: self.cure(),
            });
        }
        Ok(())
    }

    /// What to do about a trace that says nothing.
    fn cure(&self) -> &'static str {
        match &self.notes {
            Some(notes) if notes.vms.is_empty() => {
                "no guest ran when it was recorded: start one that stalls, and record again while \
                 it does"
            }
            Some(_) => {
                "its guests did nothing while it was recorded: record again while one stalls, or \
                 longer (--seconds)"
            }
            None => {
                "record a host with `steady record` while its guests run, or a guest with `steady \
                 record --guest`"
            }
        }
    }

    fn build(
        &mut self,
        name: &str,
        about: &About,
        loss: &Loss,
        analysis: &Analysis,
        zero_ns: u64,
    ) -> TraceDiagnosis {
        let (begin_ns, end_ns) = analysis.span_ns.unwrap_or((0, 0));
        assert!(begin_ns <= end_ns, "a trace ends after it begins");
        let shift = self.shift(analysis);
        let builder = Builder {
            analysis,
            names: Names {
                symbols: self.symbols.as_ref().map(|(symbols, _)| *symbols),
                shift: shift.map_or(0, |shift| shift.bytes),
            },
            exit_names: &about.exit_names,
            notes: self.notes.as_ref(),
            tick_hz: self.tick_hz,
            span_ns: end_ns - begin_ns,
            zero_ns,
            is_lossy: loss.lost_events > 0 || loss.unknown_gaps > 0 || loss.damaged > 0,
        };
        let mut vms = builder.vms();
        self.there.extend(vms.iter().map(|vm| {
            let numbers = vm.vcpus.iter().map(|vcpu| vcpu.number.to_string());
            let numbers = numbers.collect::<Vec<_>>().join(" ");
            format!("{} of {name} with vCPUs {numbers}", vm.name)
        }));
        let host = builder.host(&vms);
        // A part of the trace need not have it.
        let whole = self.slice.from_ns.is_none() && self.slice.to_ns.is_none();
        let sought = self.sought.as_ref().filter(|_| whole);
        let unfound = sought.and_then(|sought| sought.unfound(&vms));
        vms.retain(|vm| self.wants(vm));
        let trace = TraceDiagnosis {
            name: name.to_owned(),
            format: about.format.clone(),
            release: about.release.clone(),
            clock: about.clock.clone(),
            clock_is_ns: about.clock_is_ns,
            pcpus: about.pcpus,
            zero_ns,
            begin_ns,
            span_ns: end_ns - begin_ns,
            events: analysis.seen.all,
            loss: missing::loss(loss, analysis),
            missing: missing::rows(analysis, about.clock_is_ns, shift),
            saw_host_irqs: analysis.seen.host_irq > 0,
            saw_sleeps: analysis.seen.sleep > 0,
            only_vcpus: analysis.has_only_vcpus(),
            unfound,
            judged: judged::of(analysis, loss, shift),
            symbols: self
                .symbols
                .as_ref()
                .zip(shift)
                .map(|((_, file), shift)| SymbolsTable {
                    file: file.clone(),
                    shift: shift.bytes,
                    explained: shift.explained,
                    of: shift.of,
                }),
            host,
            vms_by: ground_word(analysis.machine.ground()).to_owned(),
            vcpus_by: if analysis.told { "kvm" } else { "name" }.to_owned(),
            vms,
            shootdowns: builder.shootdowns(),
            remedies: builder.remedies(),
            counted: builder.counted(),
            table: None,
        };
        let alone = builder.alone().filter(|vm| self.wants(vm));
        let alone = findings::alone(self.traces.len(), &trace, alone, &self.knobs);
        self.alone.push(alone);
        trace
    }

    fn wants(&self, vm: &VmTable) -> bool {
        let named = self.slice.vms.is_empty() || self.slice.vms.contains(&vm.name);
        let wanted = |number: &u32| self.slice.vcpus.contains(number);
        named && (self.slice.vcpus.is_empty() || vm.vcpus.iter().any(|v| wanted(&v.number)))
    }

    fn shift(&self, analysis: &Analysis) -> Option<Shift> {
        let (symbols, _) = self.symbols.as_ref()?;
        let (mut pauses, mut halts) = (Vec::new(), Vec::new());
        for vcpu in &analysis.vcpus {
            let places = vcpu.pauses.places.iter();
            pauses.extend(
                places
                    .filter(|(rip, _)| RipClass::of(**rip, vcpu.wide) != Some(RipClass::User))
                    .map(|(&rip, p)| (rip, p.exits)),
            );
            halts.extend(vcpu.halts.iter().copied());
        }
        Some(symbols.shift(&pauses, &halts))
    }

    /// Whether the slice leaves anything of what the traces have.
    ///
    /// # Errors
    /// [`DiagnoseError::NoneWanted`] if there are VMs and none of them is wanted.
    pub fn check_wanted(&self) -> Result<(), DiagnoseError> {
        if self.there.is_empty() || self.traces.iter().any(|trace| !trace.vms.is_empty()) {
            return Ok(());
        }
        Err(DiagnoseError::NoneWanted {
            there: self.there.join(", "),
        })
    }

    /// The diagnosis of all traces.
    #[must_use]
    pub fn finish(self) -> Diagnosis {
        assert_eq!(self.traces.len(), self.alone.len(), "of each trace");
        let traces = self.traces.iter().zip(&self.alone).enumerate();
        let findings =
            traces.flat_map(|(at, (trace, alone))| findings::of(at, trace, &self.knobs, alone));
        let mut diagnosis = Diagnosis {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            findings: findings.collect(),
            comparison: None,
            traces: self.traces,
        };
        diagnosis.sort();
        diagnosis
    }
}

impl Default for Diagnoser<'_> {
    fn default() -> Self {
        Self::new()
    }
}

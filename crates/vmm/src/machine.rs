// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine from start to end: built, run, stopped, reported.

use std::fs;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kvm_ioctls::IoEventAddress;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::boot::{self, Payload};
use crate::channel::Channel;
use crate::cli::Config;
use crate::console::Console;
use crate::control::{Control, Request};
use crate::devices::Devices;
use crate::kvm::Vm;
use crate::layout::{COM1_IRQ, COM2_IRQ, VIRTIO_BASE, VIRTIO_IRQS, VIRTIO_SIZE};
use crate::outcome::{Outcome, StopCause, judge};
use crate::report::{Report, SCHEMA, StatsFiles, VERSION, cpu_time};
use crate::sink::Sink;
use crate::sys;
use crate::uart::Uart;
use crate::vcpu::{Thread, Worker};
use crate::virtio::disk::{self, Server};
use crate::virtio::mmio::{DOORBELL, Registers};

/// How long all vCPUs together may take to leave the guest.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);
/// How often they are kicked until they have.
const KICK_INTERVAL: Duration = Duration::from_millis(10);
/// How long the end waits for somebody to fetch what the guest has sent over the channel.
const DELIVERY_LIMIT: Duration = Duration::from_secs(3);

/// A machine, ready to run or running.
#[derive(Debug)]
struct Machine<'a> {
    config: &'a Config,
    started: Instant,
    control: Arc<Control>,
    console: Console,
    channel: Channel,
    disks: Vec<Server>,
    stats: StatsFiles,
    cpus: Vec<Thread>,
    // Last, so that everything that uses the guest's memory goes before it.
    vm: Vm,
}

/// Runs the machine that `config` describes until it stops; returns how that came about, which is
/// also in the report.
///
/// # Errors
/// When the machine cannot be built or the report not be written. A report that was there before is
/// gone then.
pub fn run(config: &Config) -> Result<Outcome> {
    let started = Instant::now();
    match fs::remove_file(&config.report) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let shown = config.report.display();
            return Err(error).with_context(|| format!("cannot replace the old report {shown}"));
        }
        _ => {}
    }
    let control = Arc::new(Control::default());
    sys::install_kick_handler().context("cannot install a signal handler")?;
    watch_signals(&control)?;
    let machine = Machine::build(config, started, control)?;
    machine.run()
}

/// SIGTERM and SIGINT stop the machine, SIGUSR1 asks for a snapshot of the report.
fn watch_signals(control: &Arc<Control>) -> Result<()> {
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGUSR1]).context("cannot install signal handlers")?;
    let control = control.clone();
    let body = move || {
        for signal in signals.forever() {
            match signal {
                SIGUSR1 => control.want_snapshot(),
                SIGINT => control.stop(StopCause::Signal("SIGINT")),
                _ => control.stop(StopCause::Signal("SIGTERM")),
            }
        }
    };
    thread::Builder::new()
        .name("signals".into())
        .spawn(body)
        .context("cannot start the signal thread")?;
    Ok(())
}

impl<'a> Machine<'a> {
    fn build(config: &'a Config, started: Instant, control: Arc<Control>) -> Result<Self> {
        let vm = Vm::new(config)?;
        let payload = Payload {
            kernel: &config.kernel,
            initrd: &config.initrd,
            cmdline: &config.cmdline,
            disks: config.disks.len(),
        };
        let entry = boot::load(&vm.memory, &payload)?;

        let (console_sink, channel_sink) = (Sink::default(), Sink::default());
        let console_uart = serial_port(&vm, COM1_IRQ, console_sink.clone())?;
        let channel_uart = serial_port(&vm, COM2_IRQ, channel_sink.clone())?;
        let (registers, disks) = start_disks(config, &vm)?;
        let devices = Arc::new(Devices {
            console: console_uart,
            channel: channel_uart.clone(),
            disks: registers,
        });

        let vcpus = (0..config.cpus)
            .map(|index| vm.create_vcpu(index, entry))
            .collect::<Result<Vec<_>>>()?;
        let no_stats = "KVM_GET_STATS_FD failed; Linux 5.14 or later is needed";
        let stats = StatsFiles {
            vm: sys::stats_file(&vm.fd).context(no_stats)?,
            vcpus: vcpus
                .iter()
                .map(|vcpu| sys::stats_file(vcpu).context(no_stats))
                .collect::<Result<_>>()?,
        };
        let mut cpus = Vec::new();
        for (index, vcpu) in (0..).zip(vcpus) {
            let host_cpu = config.host_cpu(index);
            let (devices, control) = (devices.clone(), control.clone());
            cpus.push(
                Worker {
                    index,
                    vcpu,
                    host_cpu,
                    devices,
                    control,
                    memory: vm.memory.clone(),
                }
                .start()?,
            );
        }
        let on_error = {
            let control = control.clone();
            move |message| control.stop(StopCause::Vmm(message))
        };
        let console = Console::start(&config.console, console_sink, on_error)?;
        let channel = Channel::start(&config.channel, channel_uart, channel_sink)?;
        Ok(Machine {
            config,
            started,
            control,
            console,
            channel,
            disks,
            stats,
            cpus,
            vm,
        })
    }

    fn run(self) -> Result<Outcome> {
        self.cpus.iter().for_each(Thread::go);
        loop {
            match self.control.wait() {
                Request::Stop(cause) => return self.end(cause),
                Request::Snapshot => {
                    // The guest's run is worth more than a snapshot.
                    if let Err(error) = self.snapshot() {
                        eprintln!("steady-vmm: {}: no snapshot: {error:#}", self.config.name);
                    }
                }
            }
        }
    }

    fn snapshot(&self) -> Result<()> {
        let ending = Ending {
            outcome: Outcome::Running,
            detail: "a snapshot of the running guest".to_owned(),
            run_time: self.started.elapsed(),
            undelivered: 0,
        };
        write_report(self.config, &self.stats, &self.cpus, ending)
    }

    fn end(self, cause: StopCause) -> Result<Outcome> {
        let run_time = self.started.elapsed();
        let cpus = self.cpus.len();
        // No vCPU may stay blocked on a full queue.
        self.console.close();
        self.channel.close();
        let left = leave_guest(&self.control, &self.cpus);
        let panic_line = self.console.finish();
        let undelivered = self.channel.finish(DELIVERY_LIMIT);
        let (mut outcome, mut detail) = judge(&cause, panic_line.as_deref());
        if left < cpus {
            detail = format!(
                "{} of {cpus} vCPU threads did not leave the guest within {LEAVE_LIMIT:?} after: \
                 {detail}",
                cpus - left
            );
            outcome = Outcome::Error;
        }
        let ending = Ending {
            outcome,
            detail,
            run_time,
            undelivered,
        };
        let written = write_report(self.config, &self.stats, &self.cpus, ending);
        self.control.release();
        if left < cpus {
            // A thread that is still in the guest uses its memory until the process ends.
            std::mem::forget(self.vm);
        } else {
            self.cpus.into_iter().for_each(Thread::join);
            self.disks.into_iter().for_each(Server::finish);
        }
        written.map(|()| outcome)
    }
}

/// Kicks the vCPUs until all have left the guest or the limit has passed; returns how many have.
fn leave_guest(control: &Control, cpus: &[Thread]) -> usize {
    let deadline = Instant::now() + LEAVE_LIMIT;
    loop {
        cpus.iter().for_each(Thread::kick);
        let left = control.wait_cpus_out(cpus.len(), KICK_INTERVAL);
        if left == cpus.len() || Instant::now() >= deadline {
            return left;
        }
    }
}

/// How it ended, or how it stands.
struct Ending {
    outcome: Outcome,
    detail: String,
    run_time: Duration,
    undelivered: u64,
}

fn write_report(
    config: &Config,
    stats: &StatsFiles,
    cpus: &[Thread],
    ending: Ending,
) -> Result<()> {
    let report = Report {
        schema: SCHEMA,
        version: VERSION,
        name: &config.name,
        outcome: ending.outcome,
        detail: ending.detail,
        run_time_ns: u64::try_from(ending.run_time.as_nanos()).unwrap_or(u64::MAX),
        channel_undelivered_bytes: ending.undelivered,
        stats: stats.read().context("cannot read KVM's statistics")?,
        vcpu_threads: cpus.iter().map(|cpu| cpu.tid).collect(),
        cpu_time_ns: cpus.iter().map(|cpu| cpu_time(cpu.tid)).collect(),
    };
    if ending.outcome != Outcome::Running {
        eprintln!(
            "steady-vmm: {}: {}: {}",
            config.name, ending.outcome, report.detail
        );
    }
    report.write(&config.report)
}

fn serial_port(vm: &Vm, irq: u32, sink: Sink) -> Result<Arc<Uart>> {
    let line = EventFd::new(EFD_NONBLOCK).context("cannot make an eventfd")?;
    vm.fd
        .register_irqfd(&line, irq)
        .context("KVM_IRQFD failed")?;
    Ok(Arc::new(
        Uart::new(line, sink).context("cannot make an eventfd")?,
    ))
}

/// Opens the disks, connects their doorbells and interrupts to KVM and starts their threads.
fn start_disks(config: &Config, vm: &Vm) -> Result<(Vec<Mutex<Registers>>, Vec<Server>)> {
    let mut registers = Vec::new();
    let mut servers = Vec::new();
    let mut window = VIRTIO_BASE;
    for (index, (path, irq)) in config.disks.iter().zip(VIRTIO_IRQS).enumerate() {
        let stop = EventFd::new(EFD_NONBLOCK).context("cannot make an eventfd")?;
        let stop = Arc::new(stop);
        let disk = disk::open(path, &stop)?;
        let shared = Arc::new(disk::Shared::new(vm.memory.clone())?);
        let doorbell = IoEventAddress::Mmio(window + DOORBELL);
        vm.fd
            .register_ioevent(&shared.doorbell, &doorbell, 0u32)
            .context("KVM_IOEVENTFD failed")?;
        vm.fd
            .register_irqfd(&shared.interrupt, irq)
            .context("KVM_IRQFD failed")?;
        registers.push(Mutex::new(Registers::new(shared.clone(), disk.sectors)));
        servers.push(Server::start(index, disk, shared, stop)?);
        window += VIRTIO_SIZE;
    }
    Ok((registers, servers))
}

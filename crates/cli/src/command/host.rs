// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady host`: a shell, or a program of the user's, in an emulated host.

use std::fs;
use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use steady_lab::LabError;
use steady_lab::engine::EngineKind;
use steady_lab::host::{Host, Options};
use steady_lab_artifacts::Home;

use crate::arguments;
use crate::progress::Show;

/// Boots the host; the exit code is the program's.
pub fn host(arguments: &arguments::host::Host) -> anyhow::Result<ExitCode> {
    let home = Home::find()?;
    let engine = EngineKind::named(arguments.engine.name).ok_or_else(|| LabError::Beyond {
        scenario: "of steady host".to_owned(),
        what: format!("the engine {}", arguments.engine.name),
        limit: "it boots no kernel: choose another".to_owned(),
    })?;
    let run = program(arguments)?;
    let options = Options {
        engine,
        kernel: arguments.kernel.clone(),
        pcpus: arguments.pcpus,
        smt: arguments.smt,
        memory_mib: arguments.memory_mib,
        append: arguments.append.clone(),
        add: arguments.add.clone(),
        run,
        out: arguments.out.clone(),
        limit: arguments.limit,
    };
    let terminal = options.run.is_none().then(terminal).transpose()?;
    let host = Host::prepare(&home, &options, terminal.as_deref(), &Show::new())?;
    if arguments.print {
        writeln!(stdout(), "{}", host.command_line())?;
        return Ok(ExitCode::SUCCESS);
    }
    if terminal.is_some() {
        host.shell()?;
        return Ok(ExitCode::SUCCESS);
    }
    let code = host.program(&mut |words| {
        let mut out = stdout().lock();
        out.write_all(words)?;
        out.flush()
    })?;
    Ok(ExitCode::from(code))
}

/// What runs in place of a shell: `--init`, or else a script on a standard input that is not a
/// terminal.
fn program(arguments: &arguments::host::Host) -> anyhow::Result<Option<Vec<u8>>> {
    if let Some(path) = &arguments.init {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        return Ok(Some(bytes));
    }
    if arguments.print || stdin().is_terminal() {
        return Ok(None);
    }
    let mut script = Vec::new();
    stdin().lock().read_to_end(&mut script)?;
    anyhow::ensure!(
        !script.is_empty(),
        "standard input is not a terminal and holds no script; expected one of them, or --init FILE"
    );
    Ok(Some(script))
}

/// The terminal of this process, by its own name, as Bochs wants it.
fn terminal() -> anyhow::Result<PathBuf> {
    let place = PathBuf::from("/proc/self/fd/0");
    let name = fs::read_link(&place).with_context(|| format!("cannot read {}", place.display()))?;
    Ok(name)
}

//! The lives of children: starts them and kills them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use fastrand::Rng;

use super::child::RUNNING;
use super::setting::Setting;
use crate::Failure;

/// Longer than any opening of a pool takes: a child that prints nothing until then hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The way in which a child runs.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// The name of the way in which it runs transactions.
    pub way: &'static str,
    /// True if it only opens the pool.
    pub recover_only: bool,
}

/// Starts children and kills them.
pub struct Lives {
    program: PathBuf,
    pool: PathBuf,
    acknowledged: PathBuf,
    setting: Setting,
    /// The flag that tells the child its way.
    flag: &'static str,
    /// The time that a child recently took until it said that it runs.
    opening: Duration,
}

impl Lives {
    /// Prepares children of this program that use `pool`.
    ///
    /// # Errors
    /// Returns an error if the system does not tell the program's own path.
    pub fn new(
        setting: &Setting,
        pool: &Path,
        acknowledged: &Path,
        flag: &'static str,
    ) -> Result<Self, Failure> {
        Ok(Self {
            program: std::env::current_exe().map_err(Failure::io("find this program"))?,
            pool: pool.into(),
            acknowledged: acknowledged.into(),
            setting: setting.clone(),
            flag,
            opening: Duration::from_millis(5),
        })
    }

    fn spawn(&self, life: Life) -> Result<Child, Failure> {
        let domain = self.setting.domain.to_possible_value();
        let mut command = Command::new(&self.program);
        command.arg("torture-child").arg("--pool").arg(&self.pool);
        command.arg("--acknowledged").arg(&self.acknowledged);
        command.arg("--domain").arg(domain.as_ref().map_or("process", |value| value.get_name()));
        command.args(["--threads", &self.setting.threads.to_string()]);
        command.args(["--seed", &self.setting.seed.to_string()]);
        command.args([self.flag, life.way]);
        if life.recover_only {
            command.arg("--recover-only");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        command.spawn().map_err(Failure::io("start a child"))
    }

    /// Starts a child, and kills it `after` it has said that it runs.
    ///
    /// # Errors
    /// Returns an error if the child ended by itself, or hangs.
    pub fn kill_while_running(&mut self, life: Life, after: Duration) -> Result<(), Failure> {
        let mut child = self.spawn(life)?;
        let since = Instant::now();
        let spoke = wait_for_word(&mut child);
        if spoke.is_ok() {
            self.opening = (self.opening * 7 + since.elapsed()) / 8;
            std::thread::sleep(after);
        }
        kill(&mut child)?;
        spoke
    }

    /// Starts a child, and kills it at a moment when it is probably still opening the pool.
    ///
    /// # Errors
    /// Returns an error if the child ended by itself.
    pub fn kill_while_opening(&mut self, life: Life, random: &mut Rng) -> Result<(), Failure> {
        let mut child = self.spawn(life)?;
        std::thread::sleep(self.opening.mul_f64(1.2 * random.f64()));
        kill(&mut child)
    }
}

/// Waits until the child says that it runs.
fn wait_for_word(child: &mut Child) -> Result<(), Failure> {
    let Some(out) = child.stdout.take() else { return Ok(()) };
    let (say, hear) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(out).read_line(&mut line);
        // The receiver is gone if the wait has timed out.
        let _ = say.send(line);
    });
    match hear.recv_timeout(PATIENCE) {
        Ok(line) if line.trim_end() == RUNNING => Ok(()),
        Ok(_) => Err(Failure::Other("a child could not open the pool (its error is above)".into())),
        Err(_) => Err(Failure::Other(format!(
            "a child has not opened the pool after {} s: it hangs",
            PATIENCE.as_secs()
        ))),
    }
}

/// Kills the child (SIGKILL) and makes sure that it had not ended by itself.
fn kill(child: &mut Child) -> Result<(), Failure> {
    let ended = child.try_wait().map_err(Failure::io("look after a child"))?;
    // This fails if the child has just ended, which `wait` finds out.
    let _ = child.kill();
    child.wait().map_err(Failure::io("wait for a child"))?;
    match ended {
        None => Ok(()),
        Some(status) => {
            Err(Failure::Other(format!("a child ended by itself: {status} (its error is above)")))
        }
    }
}

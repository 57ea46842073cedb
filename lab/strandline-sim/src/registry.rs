//! The software schemes, hardware schemes and workloads of a program. The command, the crash checker on the machine and the laboratory's comparison
//! use such a registry, so that another crate can extend all three.

use strandline_core::scheme::{Durability, PRODUCT, SchemeKind, Schemes};
use strandline_workloads::{SchemeName, WorkloadKind, Workloads};

use crate::scheme::{Entry, Hardware, SCHEMES};

/// Schemes and workloads by name.
///
/// ```
/// use strandline_sim::Registry;
/// use strandline_sim::scheme::{Entry, NONE};
///
/// static MINE: Entry = Entry { name: "mine", description: "nothing yet", ..NONE };
/// let registry = Registry::default().with_hardware(&[&MINE]);
/// assert_eq!(registry.hardware.of_name("mine")?.name, "mine");
/// assert!(registry.hardware.of_name("loc-wal").is_ok(), "beside those of the papers");
/// # Ok::<(), strandline_workloads::UnknownName>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    /// Software schemes.
    pub schemes: Schemes,
    /// Hardware schemes.
    pub hardware: Hardware,
    /// Workloads.
    pub workloads: Workloads,
}

impl Default for Registry {
    /// Returns the schemes and workloads of the papers.
    fn default() -> Self {
        Self { schemes: strandline_schemes::ALL, hardware: SCHEMES, workloads: strandline_workloads::ALL }
    }
}

/// Concatenates two lists and leaks the result: registries are only made once, when the program starts.
fn joined<T: Copy>(known: impl Iterator<Item = T>, more: &[T]) -> &'static [T] {
    let all: Vec<T> = known.chain(more.iter().copied()).collect();
    all.leak()
}

/// Panics if a name is taken.
fn demand_free(kind: &str, name: &str, is_taken: bool) {
    assert!(!is_taken, "there is a {kind} {name:?} already: give your own another name");
}

impl Registry {
    /// Appends hardware schemes.
    ///
    /// # Panics
    /// Panics if a name is taken.
    #[must_use]
    pub fn with_hardware(self, more: &[&'static Entry]) -> Self {
        for entry in more {
            demand_free("hardware scheme", entry.name, self.hardware.of_name(entry.name).is_ok());
        }
        Self { hardware: Hardware::new(joined(self.hardware.iter(), more)), ..self }
    }

    /// Appends software schemes.
    ///
    /// # Panics
    /// Panics if a name is taken, or a scheme's number in a pool's state word.
    #[must_use]
    pub fn with_schemes(self, more: &[SchemeKind]) -> Self {
        for kind in more {
            for mode in kind.modes {
                demand_free("scheme", mode.name, self.scheme(mode.name).is_ok());
            }
            let code = self.schemes.of_code(kind.code);
            demand_free("scheme of the number", &kind.code.to_string(), code.is_ok());
        }
        Self { schemes: Schemes::new(joined(self.schemes.iter(), more)), ..self }
    }

    /// Appends workloads.
    ///
    /// # Panics
    /// Panics if a name is taken.
    #[must_use]
    pub fn with_workloads(self, more: &[WorkloadKind]) -> Self {
        for kind in more {
            demand_free("workload", kind.name, self.workloads.of_name(kind.name).is_ok());
        }
        Self { workloads: Workloads::new(joined(self.workloads.iter(), more)), ..self }
    }

    /// Returns the software scheme with this name, in one of its modes. Also accepts `strandline`, BPPM as applications use it. No list
    /// has it, because its pools are BPPM's.
    ///
    /// # Errors
    /// Returns an error that lists the known names if there is none.
    pub fn scheme(&self, name: &str) -> Result<SchemeName, strandline_workloads::UnknownName> {
        match PRODUCT.modes.iter().find(|mode| mode.name == name) {
            Some(mode) => Ok(SchemeName::of(&PRODUCT, mode.concurrency)),
            None => SchemeName::of_name(self.schemes, name),
        }
    }

    /// Returns the software and hardware to run, by the given names. If a name is missing, it is the hardware's own software, or the hardware for
    /// which the software scheme was made; without any name, BPPM alone.
    ///
    /// # Errors
    /// Returns an error if there is no such name, if the two do not belong together, or if software that leaves durability to hardware does not
    /// determine the hardware.
    pub fn pair(
        &self,
        scheme: Option<&str>,
        hardware: Option<&str>,
    ) -> Result<(SchemeName, &'static Entry), String> {
        let text = |unknown: strandline_workloads::UnknownName| unknown.to_string();
        let hardware = hardware.map(|name| self.hardware.of_name(name)).transpose().map_err(text)?;
        let scheme = scheme.map(|name| self.scheme(name)).transpose().map_err(text)?;
        match (scheme, hardware) {
            (Some(scheme), Some(hardware)) => {
                hardware.check_software(scheme)?;
                Ok((scheme, hardware))
            }
            (None, Some(hardware)) => {
                let own = hardware.software.first().copied().unwrap_or("bppm");
                Ok((self.scheme(own).map_err(text)?, hardware))
            }
            (scheme, None) => {
                let scheme = match scheme {
                    Some(scheme) => scheme,
                    None => self.scheme("bppm").map_err(text)?,
                };
                Ok((scheme, self.hardware_of(scheme)?))
            }
        }
    }

    /// Returns the software and hardware to run, by one name: a software scheme with the hardware for which it was made, `HARDWARE/SOFTWARE`, or a
    /// hardware scheme with its own software.
    ///
    /// # Errors
    /// As for [`Registry::pair`].
    pub fn system(&self, name: &str) -> Result<(SchemeName, &'static Entry), String> {
        match name.split_once('/') {
            Some((hardware, software)) => self.pair(Some(software), Some(hardware)),
            None if self.scheme(name).is_err() && self.hardware.of_name(name).is_ok() => {
                self.pair(None, Some(name))
            }
            None => self.pair(Some(name), None),
        }
    }

    /// Returns the hardware for which a software scheme was made.
    fn hardware_of(&self, scheme: SchemeName) -> Result<&'static Entry, String> {
        let none = self.hardware.of_name("none").map_err(|unknown| unknown.to_string())?;
        if scheme.is_native() {
            return Ok(none);
        }
        let all = self.hardware.iter().filter(|entry| entry.make.is_some() && entry.takes(scheme));
        let its: Vec<_> = all.collect();
        match its[..] {
            [] => Ok(none),
            [only] => Ok(only),
            _ => {
                let names: Vec<_> = its.iter().map(|entry| entry.name).collect();
                let does = match scheme.kind {
                    Some(kind) if kind.durability == Durability::Hardware => "leaves durability to hardware",
                    _ => "needs hardware that orders persists",
                };
                Err(format!(
                    "{} {does}, and there is no default: choose --hardware {}, or none for what it does without",
                    scheme.name(),
                    names.join(", ")
                ))
            }
        }
    }
}

//! Energy of accesses, from a figure for each kind of access.
//!
//! A machine's description has the energy of a lookup of a cache level, and of a memory device's opening a row, reading a line from the open row and
//! writing a line. Energy is counts times these figures. Parts without figures are left out, and there is a total only if every part has figures.

use crate::description::Description;
use crate::statistics::{BankStatistics, ChannelStatistics, Energy, EnergyPart, LevelStatistics};

impl Energy {
    /// Returns the energy of these counts on `machine`; `None` if the description has no figures.
    pub(crate) fn of(
        machine: &Description,
        levels: &[LevelStatistics],
        channels: &[ChannelStatistics],
    ) -> Option<Self> {
        let caches = machine.caches.iter().zip(levels).map(|(level, counts)| {
            let lookups = counts.total.hits + counts.total.misses;
            (level.name.as_str(), level.access_nj.map(|each| each * lookups as f64))
        });
        // The pool's channels come first.
        let (pool, other) = channels.split_at(machine.controllers.count * machine.controllers.channels);
        let devices = [("nvm", Some(&machine.nvm), pool), ("dram", machine.dram.as_ref(), other)];
        let memories = devices.into_iter().filter_map(|(name, device, channels)| {
            let each = device?.energy;
            let banks = || channels.iter().flat_map(|channel| &channel.banks);
            let sum = |count: fn(&BankStatistics) -> u64| banks().map(count).sum::<u64>() as f64;
            let energy = each.map(|each| {
                each.activation_nj * sum(|bank| bank.activations)
                    + each.read_nj * sum(|bank| bank.reads)
                    + each.write_nj * sum(|bank| bank.writes)
            });
            Some((name, energy))
        });
        let all: Vec<(&str, Option<f64>)> = caches.chain(memories).collect();
        let known = all.iter().filter_map(|&(name, nj)| Some(EnergyPart { name: name.to_owned(), nj: nj? }));
        let parts: Vec<EnergyPart> = known.collect();
        let total_nj = (parts.len() == all.len()).then(|| parts.iter().map(|part| part.nj).sum());
        (!parts.is_empty()).then_some(Self { parts, total_nj })
    }
}

//! Prints pools for `strandline pool`.

use std::path::Path;

use serde_json::json;
use strandline::{FieldDescription, LostMemory, Persist, Schema, Tables, TypeDescription};
use strandline_command::output::SCHEMA;
use strandline_command::{Failure, Outcome, say};
use strandline_core::file::{CheckReport, LogFile, PoolInfo, Recovery, RepairReport};
use strandline_core::heap::HeapUsage;
use strandline_core::scheme::Schemes;
use strandline_core::sync::BLOCK_BYTES;

use super::described::{Hanging, database, read_described};
use super::{Opening, options_of};
use crate::rows;

/// Prints the tables of a database, or the types of another root.
pub(super) fn show_types(path: &Path, opening: Opening, schemes: Schemes) -> Result<(), Failure> {
    let options = options_of(path, opening, schemes)?;
    let Some(store) = read_described(path, &options)? else { return Ok(()) };
    let Ok(Schema { root, types, .. }) = store.schema() else { return Ok(()) };
    if root == Tables::NAME {
        for table in database(path, &options)?.list()? {
            say!("{} {:?}: {} -> {}", table.kind, table.name, table.key, table.value);
        }
        return Ok(());
    }
    say!("the root is a {root}");
    let own = types.all().iter().filter(|of| !rows::is_of_the_library(of));
    for TypeDescription { name, is_enum, variants, .. } in own {
        let variants: Vec<_> = variants
            .iter()
            .map(|variant| {
                let field = |field: &FieldDescription| format!("{}: {}", field.name, field.type_name);
                let fields: Vec<_> = variant.fields.iter().map(field).collect();
                let fields =
                    if fields.is_empty() { String::new() } else { format!("{{ {} }}", fields.join(", ")) };
                if *is_enum { format!("{} {fields}", variant.name).trim_end().to_owned() } else { fields }
            })
            .collect();
        say!("type {name} = {}", variants.join(" | "));
    }
    Ok(())
}

pub(super) fn show_check(
    report: &CheckReport,
    Hanging { lost, unchecked }: &Hanging,
    repaired: &RepairReport,
    json: bool,
) -> Result<Outcome, Failure> {
    if json {
        let roots: Vec<_> = report
            .roots
            .iter()
            .map(|root| json!({"index": root.index, "address": root.address, "what": root.what}))
            .collect();
        say!(
            "{:#}",
            json!({
                "schema": SCHEMA, "damage": report.damage, "roots": roots, "repaired": repaired.repaired, "kept": repaired.kept,
                "lost_blocks": lost.map(|lost| lost.blocks), "lost_bytes": lost.map(|lost| lost.bytes),
                "unchecked": unchecked,
            })
        );
    } else {
        for what in &repaired.repaired {
            say!("repaired  {what}");
        }
        for kept in &repaired.kept {
            say!("kept  {}", kept.display());
        }
        for root in &report.roots {
            say!("root {}  {}", root.index, root.what);
        }
        for damage in &report.damage {
            say!("damage  {damage}");
        }
        if let Some(LostMemory { blocks, bytes, .. }) = lost.filter(|lost| lost.blocks > 0) {
            say!("lost  {bytes} bytes in {blocks} blocks are allocated, and nothing leads to them");
        }
        if let Some(why) = unchecked {
            say!("unchecked  {why}");
        }
        if report.damage.is_empty() {
            say!("no damage found");
        }
    }
    Ok(if report.damage.is_empty() { Outcome::Success } else { Outcome::Finding })
}

pub(super) fn show_dump(report: &CheckReport) {
    for root in &report.roots {
        say!("root {} at {:#x}: {}", root.index, root.address, root.what);
        for (number, word) in root.words.iter().enumerate() {
            say!("  word {number}  {word:#018x}");
        }
    }
    if !report.classes.is_empty() {
        say!(
            "{:>10} {:>8} {:>12} {:>12} {:>22}",
            "block",
            "chunks",
            "blocks",
            "allocated",
            "reclaimable chunks"
        );
    }
    for class in &report.classes {
        say!(
            "{:>10} {:>8} {:>12} {:>12} {:>22}",
            class.block_bytes,
            class.chunks,
            class.blocks,
            class.allocated,
            class.reclaimable_chunks
        );
    }
    for damage in &report.damage {
        say!("damage  {damage}");
    }
}

pub(super) fn log_file(log: &LogFile) -> String {
    match log {
        LogFile::None => "none".into(),
        LogFile::Own { ring_blocks } => format!("the pool's own, {} bytes", ring_blocks * BLOCK_BYTES),
        LogFile::Missing => "missing; a cleanly closed pool gets a new one when it is opened".into(),
        LogFile::Unused => "of a creation that was cut short; replaced when the pool is opened".into(),
        LogFile::Wrong(problem) => problem.clone(),
        other => format!("{other:?}"),
    }
}

pub(super) fn json_of(info: &PoolInfo) -> serde_json::Value {
    let (header, geometry) = (&info.header, &info.header.geometry);
    let heap = info.usage.as_ref().map(|usage| {
        json!({
            "total_bytes": usage.total_bytes, "allocated_bytes": usage.allocated_bytes,
            "objects": usage.objects, "free_chunks": usage.free_chunks,
            "partial_chunks": usage.partial_chunks, "free_block_bytes": usage.free_block_bytes,
        })
    });
    let recovery = info.recovery.map(|recovery| {
        json!({
            "records": recovery.records(), "replayed": recovery.replayed(),
            "scan_us": recovery.scan.as_micros(), "sort_us": recovery.sort.as_micros(),
            "replay_us": recovery.replay.as_micros(), "truncate_us": recovery.truncate.as_micros(),
        })
    });
    json!({
        "schema": SCHEMA, "version": header.version, "uuid": header.uuid.to_string(), "layout_name": header.layout_name,
        "file_bytes": info.space.file_bytes, "disk_bytes": info.space.disk_bytes,
        "log_disk_bytes": info.space.log_disk_bytes,
        "size": geometry.size, "logs": geometry.logs, "log_bytes": geometry.log_bytes,
        "chunk_bytes": geometry.chunk_bytes, "state": if info.in_use.is_some() { "in-use" } else { "clean" },
        "domain": info.in_use, "scheme": info.scheme, "open": info.open, "watermark": info.watermark,
        "open_in": info.open_in, "log_file": log_file(&info.log), "logs_in_directory": info.logs, "roots": info.roots, "heap": heap, "recovery": recovery,
    })
}

pub(super) fn show(info: &PoolInfo, json: bool) {
    if json {
        say!("{:#}", json_of(info));
        return;
    }
    let (header, geometry) = (&info.header, &info.header.geometry);
    let state = match (info.in_use, info.open) {
        (None, _) => "closed cleanly; opens under any domain".to_owned(),
        (Some(domain), true) => {
            let by = info.open_in.as_deref().map(|by| format!(", in {by}")).unwrap_or_default();
            format!("open now, under domain {domain}{by}")
        }
        (Some(domain), false) => format!("not closed; open it under domain {domain} to recover it"),
    };
    say!("format version    {}", header.version);
    say!("uuid              {}", header.uuid);
    say!("layout name       {:?}", header.layout_name);
    say!("size              {} bytes so far, {} at most", info.space.file_bytes, geometry.size);
    say!(
        "files             take {} bytes of the disk; log file {}",
        info.space.disk_bytes,
        info.space.log_disk_bytes
    );
    say!("logs              {} of {} bytes, {} in use so far", geometry.logs, geometry.log_bytes, info.logs);
    say!("chunks            {} bytes each", geometry.chunk_bytes);
    say!("state             {state}");
    say!("log file          {}", log_file(&info.log));
    say!("watermark         transaction {}", info.watermark);
    let roots: Vec<_> = info.roots.iter().map(|root| format!("{root:#x}")).collect();
    match &info.usage {
        None => say!("heap              not shown while the pool is open elsewhere"),
        Some(usage) => {
            say!("roots             {}", roots.join(" "));
            show_usage(usage);
        }
    }
    if let Some(recovery) = &info.recovery {
        show_recovery(recovery);
    }
}

pub(super) fn show_usage(usage: &HeapUsage) {
    say!(
        "heap              {} objects, {} of {} bytes allocated, {} chunks free, {} bytes free in {} chunks partly in use",
        usage.objects,
        usage.allocated_bytes,
        usage.total_bytes,
        usage.free_chunks,
        usage.free_block_bytes,
        usage.partial_chunks
    );
}

pub(super) fn show_recovery(recovery: &Recovery) {
    say!(
        "recovery          {} records read, {} transactions to replay: scan {:.1?}, sort {:.1?}, replay {:.1?}, \
         truncate {:.1?} (in a private copy)",
        recovery.records(),
        recovery.replayed(),
        recovery.scan,
        recovery.sort,
        recovery.replay,
        recovery.truncate
    );
}

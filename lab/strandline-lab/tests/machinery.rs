//! Runs the complete machinery on tiny structures: every figure is measured and drawn, every claim judged, and the report is self-contained. The
//! measurements are meaningless.

use std::collections::BTreeSet;

use indicatif::ProgressBar;
use serde_json::Value;
use strandline_lab::machine::Machine;
use strandline_lab::{
    Basis, Effort, Evaluation, Finding, PAPERS, Paper, Run, Score, Settings, Simulation, Site, Verdict,
    claims, html, json, overview, reproduce, reproduce_with, scoreboard,
};

fn settings(claims: &[&str]) -> Settings {
    Settings {
        simulation: Simulation::Papers,
        readings: false,
        intervals: Vec::new(),
        together: Vec::new(),
        set: Vec::new(),
        registry: Default::default(),
        effort: Effort::Trial,
        seed: 7,
        transactions: None,
        figures: Vec::new(),
        claims: claims.iter().map(|&id| id.into()).collect(),
    }
}

#[test]
fn every_paper_gives_a_report() {
    let evaluate = |paper: &'static Paper| {
        let progress = ProgressBar::hidden();
        let evaluation = reproduce(paper, &settings(&[]), &progress).unwrap();
        assert_eq!(progress.length(), Some(progress.position()), "the steps of {} add up", paper.letter);
        evaluation
    };
    let evaluations: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = PAPERS.iter().map(|&paper| scope.spawn(move || evaluate(paper))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });

    for evaluation in &evaluations {
        for figure in &evaluation.figures {
            let panels = (figure.draw)(&evaluation.measurements);
            let measured = evaluation.measurements.of(figure.id).count() > 0;
            let drawn =
                panels.iter().flat_map(|panel| &panel.curves).flat_map(|curve| curve.values.iter().flatten());
            assert_eq!(drawn.count() > 0, measured, "{}", figure.id);
            for panel in panels {
                assert!(
                    panel.curves.iter().all(|curve| curve.values.len() == panel.x.len()),
                    "{}",
                    panel.title
                );
            }
        }
    }

    let machine = Machine::here();
    let evaluations: Vec<_> = evaluations.iter().collect();
    let results = json(&evaluations, &machine, Some("abc"), "strandline-lab reproduce");
    // Numbers that are not finite would read back as null.
    let results: Value = serde_json::from_str(&results.to_string()).unwrap();
    let letters: BTreeSet<_> = PAPERS.iter().map(|paper| paper.letter).collect();
    let expected: Vec<_> =
        claims().iter().filter(|claim| letters.contains(&claim.id.chars().next().unwrap())).collect();
    let rows = results["claims"].as_array().unwrap();
    assert_eq!(rows.len(), expected.len());
    let verdicts = Verdict::ALL.map(Verdict::name);
    for (row, claim) in rows.iter().zip(expected) {
        assert_eq!(row["id"], claim.id.as_str());
        for field in ["where", "what", "method"] {
            assert!(!row[field].as_str().unwrap().is_empty(), "{row}");
        }
        assert!(!row["paper"].is_null() && row.get("measured").is_some(), "{row}");
        assert!(verdicts.contains(&row["verdict"].as_str().unwrap()), "{row}");
        let is_calibrated = row["basis"] == "calibrated";
        assert!(is_calibrated || row["verdict"] != "calibrated", "{row}");
    }
    assert_eq!(results["machine"]["cores"], machine.cores);
    assert_eq!(results["commit"], "abc");
    assert!(results["papers"][0]["series"].as_array().is_some());

    let run =
        Run { machine: &machine, commit: None, command: "strandline-lab reproduce <all>", date: "today" };
    let page = html(&evaluations, &run);
    for evaluation in &evaluations {
        for (claim, _) in &evaluation.rows {
            assert!(page.contains(&format!("id=\"{}\"", claim.id)), "{} has a card", claim.id);
        }
    }
    assert!(page.contains("reproduce &lt;all&gt;"));
    stands_on_its_own(&page);
    tags_match(&page);

    let with_claims: Vec<_> =
        evaluations.into_iter().filter(|evaluation| !evaluation.rows.is_empty()).collect();
    let page = overview(&with_claims, &run);
    tags_match(&page);
    for claim in claims() {
        assert!(page.contains(&format!("/index.html#{}\"", claim.id)), "{} has a link", claim.id);
    }
    the_readme_has_the_scoreboard(&scoreboard(&with_claims));
    simulated_numbers_are_those_of_the_pages(&with_claims);
}

/// Returns all numbers in a JSON value, with six digits.
fn numbers(value: &Value) -> Vec<String> {
    match value {
        Value::Array(all) => all.iter().flat_map(numbers).collect(),
        Value::Object(all) => all.values().flat_map(numbers).collect(),
        number => number.as_f64().map(|number| format!("{number:.5e}")).into_iter().collect(),
    }
}

/// Returns whether the numbers of a series differ from machine to machine. These are speeds with an instruction of the processor, the native rates of
/// deferred commit's Fig. 6, and the results of D9's search for violations, which stops after some time.
fn is_native(paper: &Paper, series: &Value) -> bool {
    let [figure, setting, quantity] =
        ["figure", "setting", "quantity"].map(|field| series[field].as_str().unwrap());
    let last = setting.rsplit(", ").next().unwrap();
    paper.natively
        && (["clflush", "clflushopt", "clwb"].contains(&last)
            || figure == "fig6" && ["volatile tx/s", "tx/s"].contains(&quantity)
            || figure == "barriers")
}

/// Returns the numbers of a trial that are the same on every processor: the sum of each quantity of each figure, and the numbers by which each claim
/// is judged.
fn trial(evaluation: &Evaluation) -> String {
    let paper = evaluation.paper;
    let results = json(&[evaluation], &Machine::here(), None, "");
    let mut sums = std::collections::BTreeMap::<_, (u64, f64)>::new();
    let series = results["papers"][0]["series"].as_array().unwrap();
    for series in series.iter().filter(|series| !is_native(paper, series)) {
        let name = |field: &str| series[field].as_str().unwrap();
        let (count, sum) = sums.entry((name("figure"), name("quantity"))).or_default();
        for point in series["points"].as_array().unwrap() {
            *count += 1;
            *sum += point["median"].as_f64().unwrap();
        }
    }
    let figure = |((figure, quantity), (count, sum))| {
        format!("{figure}: {quantity}: {count} numbers, sum {sum:.5e}\n")
    };
    let claim = |row: &Value| {
        let id = row["id"].as_str().unwrap();
        format!("{id}: {}: {}\n", row["verdict"].as_str().unwrap(), numbers(&row["measured"]).join(" "))
    };
    let is_same = |row: &&Value| {
        let spec = paper.claim(row["id"].as_str().unwrap()).unwrap();
        // D9 is judged by the results of a search.
        spec.venue.site != Site::Native && spec.id != "D9"
    };
    let claims: String = results["claims"].as_array().unwrap().iter().filter(is_same).map(claim).collect();
    sums.into_iter().map(figure).collect::<String>() + &claims
}

/// A trial yields the simulated and recorded numbers in `trial.txt`, which was written together with the papers' pages. The numbers of a trial are
/// meaningless, but they reveal a change of the simulator that would change a page, at a hundredth of the cost. `.ci/figures` writes them together
/// with the pages.
fn simulated_numbers_are_those_of_the_pages(evaluations: &[&Evaluation]) {
    if strandline_workloads::ALL.of_name("sqlite-pages").is_err() {
        // Loose-Ordering's averages include SQLite.
        return;
    }
    let trials: String = evaluations.iter().map(|evaluation| trial(evaluation)).collect();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trial.txt");
    if std::env::var_os("STRANDLINE_FIGURES").is_some_and(|what| what != "compare") {
        std::fs::write(path, trials).unwrap();
        return;
    }
    let pages = std::fs::read_to_string(path).unwrap();
    let changed: Vec<_> = pages.lines().zip(trials.lines()).filter(|(page, trial)| page != trial).collect();
    assert!(
        changed.is_empty() && pages.len() == trials.len(),
        "the pages' numbers have changed: .ci/figures writes them: {changed:#?}"
    );
}

/// The README has the same papers and verdicts as the output of `reproduce all`, and all claims are counted.
fn the_readme_has_the_scoreboard(printed: &str) {
    let readme = include_str!("../../../README.md");
    let (_, rest) = readme.split_once("<!-- scoreboard -->\n").expect("the README has a scoreboard");
    let (embedded, _) = rest.split_once("<!-- end of scoreboard -->").expect("it ends");
    let without_numbers = |table: &str| table.replace(|c: char| c.is_ascii_digit(), "");
    assert_eq!(without_numbers(embedded), without_numbers(printed));
    for table in [embedded, printed] {
        let mut sum = 0;
        for row in table.lines().skip(2) {
            let numbers: Vec<usize> = row.split('|').filter_map(|cell| cell.trim().parse().ok()).collect();
            let (measured, rest) = numbers.split_first().expect("numbers");
            let (verdicts, rest) = rest.split_at(Score::VERDICTS.len());
            assert_eq!(*measured, verdicts.iter().sum::<usize>(), "{row}");
            let &[given, holding, calibrated] = rest else { panic!("{row}") };
            assert!(holding <= given, "{row}");
            let of_paper = measured + given + calibrated;
            if row.starts_with("| all |") {
                assert_eq!((of_paper, sum), (claims().len(), claims().len()), "all claims of the papers");
            } else {
                sum += of_paper;
            }
        }
        assert!(sum > 0 && table.contains("| all |"), "{table}");
    }
}

/// The page loads nothing.
fn stands_on_its_own(page: &str) {
    for load in ["http:", "https:", "src=", "<link", "<script", "@import", "url(", "//cdn"] {
        assert!(!page.contains(load), "{load}");
    }
    let targets = page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    for target in targets {
        let id = target.strip_prefix('#').expect("links lead into the page");
        assert!(page.contains(&format!("id=\"{id}\"")), "{target}");
    }
}

/// Every opening tag has its closing tag, in order.
fn tags_match(page: &str) {
    let mut open = Vec::new();
    let body = page.strip_prefix("<!DOCTYPE html>").unwrap();
    for tag in body.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap();
        let name: String = tag.chars().take_while(|c| c.is_alphanumeric() || *c == '/').collect();
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "in {tag}");
        } else if !tag.ends_with('/') && name != "meta" {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<String>::new());
}

/// Claims that no run could refute are not counted as measured. A new one has to be added here with its basis.
#[test]
fn constants_and_formulas_are_named_as_such() {
    let of = |basis| -> Vec<_> {
        let claims = PAPERS.iter().flat_map(|paper| paper.claims);
        claims.filter(|claim| claim.basis == basis).map(|claim| claim.id).collect()
    };
    let constants = "B17 B21 B22 L15 L16 L19 L20 L21 D14 A10 A16 W14";
    assert_eq!(of(Basis::Constant).join(" "), constants);
    assert_eq!(of(Basis::ClosedForm).join(" "), "D1 D2 D3 D13 W1 W3 W10");
    assert_eq!(of(Basis::Construction), ["L22"]);
    assert_eq!(of(Basis::Calibrated), ["B16", "L7", "L14"]);
}

/// A quick run judges W9, whose orders are of simulated numbers, with three seeds. The numbers are those of the first one.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn orders_of_simulated_numbers_hold_with_three_seeds() {
    let progress = ProgressBar::hidden();
    let quick = Settings { effort: Effort::Quick, seed: 1, ..settings(&["W9"]) };
    let evaluation = reproduce(paper("wrap"), &quick, &progress).unwrap();
    assert_eq!(progress.length(), Some(progress.position()), "the steps add up");
    let (_, finding) = &evaluation.rows[0];
    assert_eq!((finding.verdict, &finding.seeds[..]), (Verdict::Holds, &[1, 2, 3][..]));
    let row = json(&[&evaluation], &Machine::here(), None, "")["claims"][0].clone();
    assert_eq!((&row["seeds"][2], &row["basis"]), (&3.into(), &"measured".into()));
}

#[test]
fn one_claim_runs_one_figure() {
    let evaluation = reproduce(PAPERS[0], &settings(&["B12"]), &ProgressBar::hidden()).unwrap();
    assert_eq!(evaluation.figures.iter().map(|figure| figure.id).collect::<Vec<_>>(), ["fig12"]);
    assert_eq!(evaluation.rows.len(), 1);
    let error = reproduce(PAPERS[0], &settings(&["B99"]), &ProgressBar::hidden()).unwrap_err();
    assert!(error.to_string().contains("B22"), "{error}");
}

/// A run that is ended early keeps the claims of the figures that were measured, and is marked as incomplete.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn claims_are_known_as_soon_as_their_figure_is_measured() {
    let mut seen = Vec::new();
    let evaluation =
        reproduce_with(paper("wrap"), &settings(&["W8", "W1", "W5"]), &ProgressBar::hidden(), |known| {
            let row = json(&[known], &Machine::here(), None, "");
            assert_eq!(row["papers"][0]["finished"], known.finished);
            let ids: Vec<_> = known.rows.iter().map(|(claim, _)| claim.id.as_str()).collect();
            seen.push((ids.join(" "), known.finished));
            Ok::<_, strandline_lab::Error>(())
        });
    let seen: Vec<_> = seen.iter().map(|(ids, finished)| (ids.as_str(), *finished)).collect();
    assert_eq!(seen, [("W1", false), ("W1 W5", false), ("W1 W5 W8", false), ("W1 W5 W8", true)]);
    assert_eq!(evaluation.unwrap().of_figures.len(), 3);

    // A failure to write ends the run.
    let error = strandline_lab::Error::Usage("the disk is full".into());
    let mut error = Some(error);
    let ended =
        reproduce_with(paper("wrap"), &settings(&[]), &ProgressBar::hidden(), |_| Err(error.take().unwrap()));
    assert!(ended.unwrap_err().to_string().contains("disk"));
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn open_parameters_are_varied() {
    let progress = ProgressBar::hidden();
    let paper = PAPERS.iter().copied().find(|paper| paper.name == "wrap").unwrap();
    let interval =
        |text: &str| Settings { intervals: vec![text.parse().unwrap()], ..settings(&["W3", "W14"]) };
    let evaluation = reproduce(paper, &interval("nvm.write_ns=600,1200"), &progress).unwrap();
    assert_eq!(progress.length(), Some(progress.position()), "the steps add up");
    let finding = |id: &str| &evaluation.rows.iter().find(|(claim, _)| claim.id == id).unwrap().1;
    let varied = finding("W3");
    let settings: Vec<_> = varied.interval.iter().map(|at| at.setting.to_string()).collect();
    assert_eq!(settings, ["nvm.write_ns=600", "nvm.write_ns=1200"]);
    assert_eq!(varied.interval[1].finding.measured, varied.measured, "1200 is what the machine has");
    assert_ne!(varied.interval[0].finding.measured, varied.measured);
    assert_eq!(varied.range(), None, "which is that of readings");
    let row = json(&[&evaluation], &Machine::here(), None, "")["claims"][0].clone();
    assert_eq!(row["interval"][0]["set"][0], "nvm.write_ns=600");
    assert!(row["holds_for"]["nvm.write_ns"].is_array());
    let of_constants = Settings { claims: vec!["L15".into()], ..interval("nvm.write_ns=600") };
    let error = reproduce(self::paper("loose-ordering"), &of_constants, &progress).unwrap_err().to_string();
    assert!(error.contains("--interval") && error.contains("loc"), "{error}");
    for wrong in ["nvm.write_ns=-1", "nvm.wirte_ns=5"] {
        assert!(matches!(
            reproduce(paper, &interval(wrong), &progress),
            Err(strandline_lab::Error::Usage(_))
        ));
    }
    assert!("nvm.write_ns".parse::<strandline_lab::Interval>().is_err());
}

/// The seed and an interval reach each paper that is simulated on its own machine. A test of the same name in `strandline-lab-cli` covers WrAP.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn seeds_and_intervals_reach_each_paper() {
    // These are the claims with the cheapest figures; A8's figure has its own latencies.
    for (name, claim, interval) in
        [("loose-ordering", "L12", "nvm.write_ns=5000"), ("atom", "A8", "nvm.gigabytes_per_s=0.5")]
    {
        let plain = settings(&[claim]);
        let varied = Settings { seed: 8, intervals: vec![interval.parse().unwrap()], ..plain.clone() };
        let [plain, varied] = [plain, varied]
            .map(|settings| reproduce(paper(name), &settings, &ProgressBar::hidden()).unwrap());
        let [plain, other] =
            [&plain, &varied].map(|run| json(&[run], &Machine::here(), None, "")["papers"][0].clone());
        assert_eq!((&plain["seed"], &other["seed"]), (&7.into(), &8.into()));
        assert_ne!(plain["series"], other["series"], "{name}");
        let (_, finding) = &varied.rows[0];
        assert_eq!(finding.interval.len(), 1);
        assert_ne!(finding.interval[0].finding.measured, finding.measured, "{name}");
    }
}

fn paper(name: &str) -> &'static Paper {
    PAPERS.iter().copied().find(|paper| paper.name == name).unwrap()
}

fn on(name: &str, claims: &[&str]) -> Settings {
    let machine = strandline_sim::file::load(name, &[""; 0]).unwrap();
    Settings { simulation: Simulation::On(Box::new(machine)), ..settings(claims) }
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn deferred_commit_is_judged_by_the_rates_of_the_papers_processor() {
    let progress = ProgressBar::hidden();
    let evaluation = reproduce(paper("deferred-commit"), &settings(&["D4", "D6"]), &progress).unwrap();
    assert_eq!(progress.length(), Some(progress.position()), "the steps add up");
    for (claim, finding) in &evaluation.rows {
        assert!(finding.beside.iter().any(|beside| beside.setting == "native rates"), "{}", claim.id);
    }
    let panels = (evaluation.figures[0].draw)(&evaluation.measurements);
    assert_eq!(panels.len(), 16, "native and simulated, two workloads on arrays and indexed, two designs");
    // Four threads do not fit one core.
    let error = reproduce(paper("deferred-commit"), &on("loc", &["D6"]), &progress).unwrap_err().to_string();
    assert!(error.contains("4 threads") && error.contains("1 cores"), "{error}");
}

/// B12 is judged natively, and B2 and B8 on the simulated Opteron, whatever else runs.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn the_place_where_a_claim_is_judged_is_fixed() {
    let progress = ProgressBar::hidden();
    let blurred = paper("blurred");
    let both = |settings: &Settings| {
        let evaluation = reproduce(blurred, settings, &progress).unwrap();
        assert_eq!(progress.length(), Some(progress.position()), "the steps add up");
        evaluation
    };
    let finding = |evaluation: &Evaluation, id: &str| {
        evaluation.rows.iter().find(|(claim, _)| claim.id == id).unwrap().1.clone()
    };
    let site = |id: &str| blurred.claim(id).unwrap().venue.site;
    assert_eq!([site("B12"), site("B2"), site("B8")], [Site::Native, Site::Simulated, Site::Simulated]);

    // By default both places run and are shown side by side.
    let evaluation = both(&settings(&["B2", "B8", "B12"]));
    let settings_of = |figure| evaluation.measurements.settings(figure);
    assert!(settings_of("fig7").contains(&"simulated") && settings_of("fig7").contains(&"clflush"));
    // Threads are those of the Opteron's four cores, whatever the host has.
    assert!(evaluation.measurements.xs("fig8").contains(&"4"));
    let [b2, b8, b12] = ["B2", "B8", "B12"].map(|id| finding(&evaluation, id));
    let beside = |finding: &Finding, setting: &str| finding.beside.iter().any(|b| b.setting == setting);
    for judged in [&b2, &b8] {
        assert!(beside(judged, "clflush") && !beside(judged, "simulated"), "{judged:?}");
    }
    assert!([&b2, &b8, &b12].iter().all(|finding| finding.verdict != Verdict::NotRun));
    let rows = json(&[&evaluation], &Machine::here(), None, "")["claims"].clone();
    assert_eq!(
        (&rows[0]["judged"]["site"], &rows[2]["judged"]["site"]),
        (&"simulated".into(), &"native".into())
    );
    assert!(rows[0]["judged"]["because"].as_str().unwrap().contains("processor at hand"));

    // On another machine, or on none, the claims that the Opteron judges are not judged, and the finding says what to run.
    for other in [on("gem5-nvm", &["B8"]), Settings { simulation: Simulation::Nothing, ..settings(&["B8"]) }]
    {
        let evaluation = both(&other);
        let b8 = finding(&evaluation, "B8");
        assert_eq!(b8.verdict, Verdict::NotRun);
        assert!(b8.notes[0].contains("opteron") && b8.notes[0].contains("--claim B8"), "{:?}", b8.notes);
    }
    for simulated in ["loose-ordering", "atom", "wrap"] {
        let paper = paper(simulated);
        for other in [on("opteron", &[]), Settings { simulation: Simulation::Nothing, ..settings(&[]) }] {
            let error = reproduce(paper, &other, &progress).unwrap_err().to_string();
            assert!(error.contains("--machine") && error.contains(paper.machine.unwrap()), "{error}");
            assert!(error.contains("--interval"), "{error}");
        }
    }
}

/// Claims that depend on the machine are judged under each reading of the paper's text, and also with the user's settings.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn claims_are_judged_with_other_readings_of_the_text() {
    let progress = ProgressBar::hidden();
    let together = vec!["nvm.read_ns=440,nvm.write_ns=9000".parse().unwrap()];
    let settings = Settings { readings: true, together, ..settings(&["W6"]) };
    let evaluation = reproduce(paper("wrap"), &settings, &progress).unwrap();
    let (_, varied) = &evaluation.rows[0];
    let readings = evaluation.readings();
    assert_eq!(readings.len(), paper("wrap").readings().count());
    assert_eq!(varied.with_readings().count(), readings.len());
    let stores = |set: &[&str]| {
        let at = varied.interval.iter().find(|at| at.setting.set() == set).expect("it was run");
        at.finding.measured.clone()
    };
    assert_ne!(stores(&["program.store_bytes=8"]), varied.measured, "half as many stores");
    assert_ne!(stores(&["program.b_tree=library"]), varied.measured, "another tree");
    assert_eq!(stores(&["nvm.read_ns=440", "nvm.write_ns=9000"]), varied.measured, "as many stores");
    let results = json(&[&evaluation], &Machine::here(), None, "");
    let row = results["claims"].as_array().unwrap().iter().find(|row| row["id"] == "W6").unwrap();
    assert_eq!(row["readings"].as_array().unwrap().len(), readings.len());
    assert_eq!(row["interval"].as_array().unwrap().len(), 1);
    assert_eq!(results["papers"][0]["readings"].as_array().unwrap().len(), readings.len());
    let page = html(
        &[&evaluation],
        &Run { machine: &Machine::here(), commit: None, command: "", date: "2026-01-01" },
    );
    assert!(page.contains("program.b_tree=library"));
}

/// Returns the claims of figures that readings are said not to affect, with these readings. Claims with the same readings are grouped, so that each
/// figure is measured only once without readings.
fn untouched(paper: &'static Paper) -> Vec<(Vec<&'static str>, Vec<&'static [String]>)> {
    let mut groups: Vec<(Vec<&str>, Vec<&[String]>)> = Vec::new();
    for claim in paper.claims {
        let Some(figure) = claim.figure else { continue };
        let bears = |own: &[String]| own.iter().any(|other| other == figure);
        // A machine refuses such a setting: each thread would have a structure of its own, but TPC-C has only one.
        let is_refused = |set: &[String]| figure == "tpcc" && set == ["program.lock_scope=thread"];
        let others =
            paper.readings().filter(|reading| reading.figures.as_deref().is_some_and(|own| !bears(own)));
        let sets: Vec<_> = others.map(|reading| &*reading.set).filter(|set| !is_refused(set)).collect();
        match groups.iter_mut().find(|(_, known)| *known == sets) {
            Some((claims, _)) => claims.push(claim.id),
            None if sets.is_empty() => {}
            None => groups.push((vec![claim.id], sets)),
        }
    }
    groups
}

/// Combines sets that set different keys: each setting is in one of the returned sets.
fn combined<'a>(sets: &[&'a [String]]) -> Vec<Vec<&'a str>> {
    let key = |setting: &'a str| setting.split_once('=').map(|(key, _)| key);
    let mut all: Vec<Vec<&str>> = Vec::new();
    for set in sets {
        let is_free =
            |known: &&mut Vec<&'a str>| set.iter().all(|new| known.iter().all(|old| key(old) != key(new)));
        match all.iter_mut().find(is_free) {
            Some(known) => known.extend(set.iter().map(String::as_str)),
            None => all.push(set.iter().map(String::as_str).collect()),
        }
    }
    all
}

/// A figure that readings are said not to affect stays the same under them, with as many at once as a machine supports. Readings that combine several
/// others are covered by these.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn readings_bear_on_no_other_figures() {
    let compared = |paper: &'static Paper, claims: &[&str], mut sets: Vec<&[String]>| {
        let all = sets.clone();
        let has_another = |set: &[String]| {
            all.iter().any(|other| *other != set && other.iter().all(|key| set.contains(key)))
        };
        sets.retain(|set| !has_another(set));
        let together: Vec<_> = combined(&sets).iter().map(|set| set.join(",").parse().unwrap()).collect();
        let settings = Settings { together, ..settings(claims) };
        let varied = reproduce(paper, &settings, &ProgressBar::hidden()).unwrap();
        let mut compared = 0;
        for (claim, finding) in varied.rows {
            let count = finding.interval.len();
            assert!(count == 0 || count == settings.together.len(), "{}", claim.id);
            for at in &finding.interval {
                assert_eq!(at.finding.measured, finding.measured, "{}: {}", claim.id, at.setting);
                compared += at.setting.set().len();
            }
        }
        compared
    };
    let compared: usize = std::thread::scope(|scope| {
        let mut runs = Vec::new();
        for &paper in PAPERS.iter().filter(|paper| !paper.natively && paper.machine.is_some()) {
            let groups = untouched(paper).into_iter();
            runs.extend(groups.map(|(claims, sets)| scope.spawn(move || compared(paper, &claims, sets))));
        }
        runs.into_iter().map(|run| run.join().unwrap()).sum()
    });
    assert!(compared > 20, "{compared}");
}

//! Every example of the guide loads, compiles and does what it says.

use std::{collections::BTreeMap, path::Path};

use skopos_api::{Resource, RuleSpec, load};
use skopos_react::rule::{CompiledRule, Origin, run_test};

const GUIDE: &str = include_str!("../../../../docs/guide/rules.md");

fn examples() -> Vec<Resource> {
    let blocks = GUIDE
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let loaded = blocks.flat_map(|block| load(block, Path::new("rules.md")));
    loaded.map(|loaded| loaded.unwrap().resource).collect()
}

fn compile(namespace: &str, name: &str, spec: &RuleSpec) -> CompiledRule {
    let compiled = CompiledRule::compile(Origin::cluster(namespace, name), spec, None);
    compiled.unwrap_or_else(|problems| panic!("{name}: {problems:?}"))
}

#[test]
fn examples_of_the_guide_work() {
    let mut rules = BTreeMap::new();
    let mut tests = Vec::new();
    for example in examples() {
        match example {
            Resource::Rule(rule) => {
                let (name, namespace) = (rule.metadata.name.unwrap(), rule.metadata.namespace.unwrap());
                rules.insert(
                    (namespace.clone(), name.clone()),
                    compile(&namespace, &name, &rule.spec),
                );
            }
            Resource::RuleTest(test) => tests.push((test.metadata.namespace.unwrap(), test.spec)),
            Resource::Sink(_) | Resource::Record(_) => {}
        }
    }
    assert_eq!((rules.len(), tests.len()), (7, 1));
    for (namespace, test) in tests {
        let name = test.rule.clone().unwrap();
        for result in run_test(&rules[&(namespace.clone(), name)], &test) {
            assert_eq!(result.failures, Vec::<String>::new(), "{}", result.name);
        }
    }
}

#[test]
fn problems_look_as_in_the_guide() {
    let schema = serde_json::json!({"type": "object", "properties": {"status": {"type": "object", "properties": {"phase": {"type": "string"}}}}});
    let schema = skopos_schema::Structural::from_json(&schema).unwrap();
    let spec = crate::spec("watch: {kind: Backup}\nwhen: became(object.statuss.phase == \"Failed\")\n");
    let problems = CompiledRule::compile(Origin::file("ops", "r"), &spec, Some(&schema)).unwrap_err();
    let shown: Vec<String> = problems[0]
        .to_string()
        .lines()
        .take(3)
        .map(str::to_owned)
        .collect();
    assert!(GUIDE.contains(&shown.join("\n")), "{shown:#?}");
}

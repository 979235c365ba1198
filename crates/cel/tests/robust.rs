//! Any text and any data: no panic, no hang, bounds kept. `PROPTEST_RNG_SEED` replays a run.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use skopos_cel::{Activation, Decl, Env, EvalErrorKind};

fn env() -> Env {
    Env::builder()
        .variable("object", Decl::dynamic())
        .variable("n", Decl::int())
        .build()
}

/// Compiles, shows errors, evaluates within a small budget.
fn exercise(source: &str, object: &Json) {
    let env = env();
    let program = match env.compile(source) {
        Ok(program) => program,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let number = json!(3);
    let vars = Activation::new(&program)
        .with_json("object", object)
        .with_json("n", &number)
        .with_cost_limit(20_000);
    let outcome = program.run(&vars);
    match outcome.value {
        Ok(value) => drop(value.to_string()),
        Err(error) if error.kind() == EvalErrorKind::Budget => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Expressions put together from pieces that belong to the language.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("object".to_owned()),
        Just("n".to_owned()),
        Just("x".to_owned()),
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("null".to_owned()),
        Just("optional.none()".to_owned()),
        any::<i64>().prop_map(|i| i.to_string()),
        any::<u64>().prop_map(|u| format!("{u}u")),
        any::<f64>().prop_map(|d| format!("{d:e}")),
        any::<bool>().prop_map(|b| b.to_string()),
        "[a-z%. é]{0,6}".prop_map(|s| format!("'{s}'")),
        "[a-z]{0,3}".prop_map(|s| format!("duration('{s}1s')")),
    ];
    leaf.prop_recursive(6, 64, 4, |inner| {
        let one = inner.clone();
        let name = prop::sample::select(vec![
            "size",
            "sum",
            "min",
            "sort",
            "reverse",
            "flatten",
            "distinct",
            "trim",
            "value",
            "first",
            "isSorted",
            "upperAscii",
            "getHours",
            "unwrapOpt",
            "hasValue",
        ]);
        let two = prop::sample::select(vec![
            "contains",
            "split",
            "join",
            "format",
            "matches",
            "find",
            "findAll",
            "indexOf",
            "charAt",
            "orValue",
            "or",
            "startsWith",
            "substring",
            "add",
            "validate",
        ]);
        let global = prop::sample::select(vec![
            "int",
            "string",
            "type",
            "dyn",
            "quantity",
            "ip",
            "cidr",
            "url",
            "semver",
            "timestamp",
            "lists.range",
            "optional.of",
            "bytes",
            "double",
            "uint",
            "isQuantity",
            "has",
        ]);
        let fold = prop::sample::select(vec![
            "all",
            "exists",
            "exists_one",
            "map",
            "filter",
            "optMap",
            "sortBy",
            "optFlatMap",
        ]);
        let op = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "==", "!=", "<", ">=", "&&", "||", "in",
        ]);
        prop_oneof![
            (inner.clone(), op, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (inner.clone(), name).prop_map(|(a, name)| format!("{a}.{name}()")),
            (inner.clone(), two, inner.clone()).prop_map(|(a, name, b)| format!("{a}.{name}({b})")),
            (global, inner.clone()).prop_map(|(name, a)| format!("{name}({a})")),
            (inner.clone(), fold, inner.clone()).prop_map(|(a, name, b)| format!("{a}.{name}(x, {b})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{{a}: {b}}}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("dyn([dyn({a}), dyn({b})])")),
            one.prop_map(|a| format!("dyn({a}).a.?b")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn takes_any_text(source in ".{0,80}") {
        exercise(&source, &Json::Null);
    }

    #[test]
    fn takes_text_of_tokens(source in "([a-z.()\\[\\]{}?:,'\"0-9+*/<>=!&|%\\\\ -]|in|has|\\.map\\(x,){0,40}") {
        exercise(&source, &json!({"a": [1, "b"]}));
    }

    #[test]
    fn takes_any_expression(source in expression()) {
        exercise(&source, &json!({"a": {"b": [1, 2.5, "x", null, true]}, "b": "y"}));
    }
}

#[test]
fn stops_what_costs_too_much() {
    let bombs = [
        "lists.range(1000000000000)",
        "lists.range(1000).map(a, lists.range(1000).map(b, lists.range(1000).map(c, a + b + c)))",
        "lists.range(100000).all(x, lists.range(100000).all(y, true))",
        "lists.range(100000).distinct().size()",
        "lists.range(100000).map(x, 'aaaaaaaaaa'.replace('', 'bbbbbbbbbbbbbbbbbbbbbbb')).join().replace('', lists.range(9999).map(x, 'c').join())",
        "sets.contains(lists.range(100000), lists.range(100000))",
    ];
    for bomb in bombs {
        let program = env().compile(bomb).unwrap();
        let error = program.eval(&Activation::new(&program)).unwrap_err();
        assert_eq!(error.kind(), EvalErrorKind::Budget, "{bomb}: {error}");
    }
}

#[test]
fn takes_types_that_double_at_every_step() {
    let mut source = "a".to_owned();
    for _ in 0..60 {
        source = format!("optional.of({{'k': [{source}]}}).optMap(a, {{'x': [a], 'y': [a]}}).value()");
        if source.len() > 90_000 {
            break;
        }
    }
    let source = source.replacen("[a]", "[1]", 1);
    let _ = env().compile(&source);
    // Keys and values both of the type before: the written-out type has 2^60 parts.
    let mut nested = "x".to_owned();
    for _ in 0..60 {
        nested = format!("optional.of({{x: x}}).optMap(x, {nested}).value()");
    }
    let _ = env().compile(&format!("optional.of(1).optMap(x, {nested})"));
}

#[test]
fn takes_deep_nesting() {
    for unit in ["(", "[", "{1:", "!", "-", "f(", "a?b:", "a."] {
        exercise(&unit.repeat(5000), &Json::Null);
    }
    for unit in ["+1", ".a", "[0]", "&&true", "||a", "==1", "?1:1"] {
        exercise(&format!("1{}", unit.repeat(5000)), &Json::Null);
    }
}

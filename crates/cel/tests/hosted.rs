//! What embeds expressions: host functions, optional variables, costs, sharing.

use std::cell::RefCell;

use serde_json::json;
use skopos_cel::{
    Activation, CallSite, Decl, Env, EvalError, EvalErrorKind, Host, Program, Root, Type, Value,
};
use skopos_schema::Structural;

/// Answers `changed(path)` with whether the path is listed, and notes every other call.
#[derive(Default)]
struct Recorder {
    calls: RefCell<Vec<String>>,
}

impl Host for Recorder {
    fn call<'a>(&self, site: &CallSite, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let call = format!("{}#{}({})", site.function, site.index, args.join(", "));
        self.calls.borrow_mut().push(call);
        match &*site.function {
            "became" | "heldFor" | "changed" => Ok(Value::Bool(true)),
            other => Err(format!("{other} is unknown").into()),
        }
    }
}

fn rules() -> Env {
    Env::builder()
        .variable("object", Decl::dynamic())
        .function("changed", &[Type::String], Type::Bool)
        .function("became", &[Type::Bool], Type::Bool)
        .function("heldFor", &[Type::Bool, Type::Duration], Type::Bool)
        .build()
}

#[test]
fn asks_the_host_with_the_place_of_the_call() {
    let source = "changed('spec') && became(object.ready) && heldFor(object.ready, duration('5m')) && became(!object.ready)";
    let program = rules().compile(source).unwrap();
    let object = json!({"ready": false});
    let host = Recorder::default();
    let vars = Activation::new(&program)
        .with_json("object", &object)
        .with_host(&host);
    assert_eq!(program.eval(&vars).unwrap().as_bool(), Some(true));
    let expected = [
        "changed#0(\"spec\")",
        "became#1(false)",
        "heldFor#2(false, duration 300000000000)",
        "became#3(true)",
    ];
    assert_eq!(*host.calls.borrow(), expected);
    assert_eq!(program.call_sites().len(), 4);
}

#[test]
fn checks_calls_of_the_host() {
    let error = rules()
        .compile("heldFor(object.ready, '5m')")
        .unwrap_err()
        .to_string();
    let expected = "ERROR: <input>:1:8: found no matching overload for 'heldFor' applied to '(dyn, string)'\n | heldFor(object.ready, '5m')\n | .......^";
    assert_eq!(error, expected);
}

#[test]
fn says_when_there_is_no_host() {
    let program = rules().compile("changed('spec')").unwrap();
    let error = program.eval(&Activation::new(&program)).unwrap_err();
    assert_eq!(error.to_string(), "no such overload: changed");
}

#[test]
fn gives_an_absent_optional_variable_as_none() {
    let env = Env::builder()
        .variable("self", Decl::int())
        .optional_variable("oldSelf", Decl::int())
        .build();
    let program = env.compile("oldSelf.orValue(0) < self").unwrap();
    let (small, large) = (json!(1), json!(5));
    let created = Activation::new(&program).with_json("self", &small);
    assert_eq!(program.eval(&created).unwrap().as_bool(), Some(true));
    let updated = Activation::new(&program)
        .with_json("self", &small)
        .with_json("oldSelf", &large);
    assert_eq!(program.eval(&updated).unwrap().as_bool(), Some(false));
    assert!(program.uses("oldSelf"));
}

#[test]
fn stops_at_the_cost_limit_even_below_or() {
    let program = rules().compile("object.items.all(x, x > 0) || true").unwrap();
    let object = json!({"items": vec![1; 1000]});
    let vars = Activation::new(&program)
        .with_json("object", &object)
        .with_cost_limit(100);
    let error = program.eval(&vars).unwrap_err();
    assert_eq!(error.kind(), EvalErrorKind::Budget);
    assert_eq!(
        error.to_string(),
        "operation cancelled: actual cost limit exceeded"
    );
}

/// The run-time cost lies within the estimate, whatever the data that the schema allows.
#[test]
fn estimates_contain_what_evaluations_cost() {
    let schema = json!({"type": "object", "properties": {
        "items": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 3}},
        "name": {"type": "string", "maxLength": 10},
        "free": {"type": "array", "items": {"type": "integer"}},
    }});
    let schema = Structural::from_json(&schema).unwrap();
    let decl = Decl::from_schema(&schema, "selfType", Root::Field).unwrap();
    let env = Env::builder().variable("self", decl).build();
    let this = json!({"items": ["abc", "abc", "abc", "abc", "abc"], "name": "0123456789", "free": [1, 2, 3]});
    let cases = [
        ("self.name == 'x'", 20),
        ("self.items.all(x, x.startsWith('a'))", 60),
        ("self.items.exists(x, x == self.name)", 60),
        ("self.items.map(x, x + self.name).size() > 3", 200),
        ("has(self.name) ? self.name.matches('^[0-9]+$') : false", 60),
        ("self.free.all(x, x > 0)", 100_000_000),
    ];
    for (source, bound) in cases {
        let program = env.compile(source).unwrap();
        let estimate = program.cost_estimate();
        let vars = Activation::new(&program).with_json("self", &this);
        let outcome = program.run(&vars);
        outcome.value.unwrap();
        let cost = outcome.cost;
        assert!(
            estimate.min <= cost && cost <= estimate.max,
            "{source}: {cost} not in {estimate:?}"
        );
        assert!(estimate.max <= bound, "{source}: {estimate:?}");
    }
}

#[test]
fn programs_are_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let program: Program = rules().compile("object.a == 1").unwrap();
    shared(&program);
    std::thread::scope(|scope| {
        for n in 0..4 {
            let program = &program;
            scope.spawn(move || {
                let object = json!({"a": n});
                let vars = Activation::new(program).with_json("object", &object);
                assert_eq!(program.eval(&vars).unwrap().as_bool(), Some(n == 1));
            });
        }
    });
}

#[test]
fn leaves_arguments_of_lazy_functions_to_the_host() {
    let env = Env::builder()
        .variable("object", Decl::dynamic())
        .lazy_function("was", &[Type::Bool], Type::Bool)
        .build();
    let program = env
        .compile("true &&\n  was( object.e == 'ü' || (object.gone) )")
        .unwrap();
    let host = Recorder::default();
    let object = json!({});
    let vars = Activation::new(&program)
        .with_json("object", &object)
        .with_host(&host);
    assert_eq!(program.eval(&vars).unwrap_err().to_string(), "was is unknown");
    assert_eq!(*host.calls.borrow(), ["was#0()"]);
    let argument = &program.call_sites()[0].args[0];
    assert_eq!(&*argument.text, "object.e == 'ü' || (object.gone)");
    assert_eq!((argument.location.line, argument.location.column), (2, 8));
    assert!(env.compile("was(1)").is_err());
}

#[test]
fn names_the_parts_that_explain_a_value() {
    let source =
        "a.b == 'x' && !(has(a.c) || a.d in ['p', 'q']) && (a.e.size() > 2 ? f(a, 1) : true) && a.b != 'y'";
    let expect = [
        "a.b == 'x'",
        "a.b",
        "has(a.c)",
        "a.d in ['p', 'q']",
        "a.d",
        "a.e.size() > 2",
        "a.e.size()",
        "f(a, 1)",
        "a.b != 'y'",
    ];
    assert_eq!(Env::parts(source), expect);
    assert!(Env::parts("a.").is_empty());
}

#[test]
fn tells_what_is_missing_from_what_is_wrong() {
    let object = json!({"list": [], "text": "x"});
    for (source, kind) in [
        ("object.a.b", EvalErrorKind::Missing),
        ("object['a']", EvalErrorKind::Missing),
        ("object.list[0]", EvalErrorKind::Missing),
        ("object.a == 1 && true", EvalErrorKind::Missing),
        ("object.text > 1", EvalErrorKind::Data),
    ] {
        let env = Env::builder().variable("object", Decl::dynamic()).build();
        let program = env.compile(source).unwrap();
        let error = program
            .eval(&Activation::new(&program).with_json("object", &object))
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{source}: {error}");
    }
}

#[test]
fn values_become_json_and_text() {
    let object = json!({"spec": {"n": [1, "a"]}, "t": "2026-01-02T03:04:05Z"});
    let env = Env::builder().variable("object", Decl::dynamic()).build();
    for (source, expected, text) in [
        ("object.spec", json!({"n": [1, "a"]}), r#"{"n":[1,"a"]}"#),
        (
            "{'a': [timestamp(object.t)]}",
            json!({"a": ["2026-01-02T03:04:05Z"]}),
            r#"{"a":["2026-01-02T03:04:05Z"]}"#,
        ),
        ("duration('90s')", json!("90s"), "90s"),
        ("object.?gone", json!(null), ""),
        ("'x' + 'y'", json!("xy"), "xy"),
        ("1.5", json!(1.5), "1.5"),
        ("ip('10.0.0.1')", json!("10.0.0.1"), "10.0.0.1"),
    ] {
        let program = env.compile(source).unwrap();
        let value = program
            .eval(&Activation::new(&program).with_json("object", &object))
            .unwrap();
        assert_eq!(
            (value.to_json().unwrap(), value.to_text().unwrap().as_str()),
            (expected, text),
            "{source}"
        );
    }
}

#[test]
fn whole_objects_have_metadata_and_anything_where_the_schema_says_nothing() {
    let schema = Structural::from_json(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
        }},
    }}))
    .unwrap();
    let env = Env::builder()
        .variable("object", Decl::from_resource(&schema, "Widget"))
        .build();
    for source in [
        "object.metadata.labels['a'] == 'b' && object.metadata.generation > 1",
        "object.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z')",
        "object.spec.raw.x.y == 1 && object.spec.any > 2",
    ] {
        assert!(env.compile(source).is_ok(), "{source}");
    }
    for source in [
        "object.spec.replica > 1",
        "object.spec.replicas == 'a'",
        "object.metadata.nam == ''",
    ] {
        assert!(env.compile(source).is_err(), "{source}");
    }
}

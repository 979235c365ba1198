//! What is written down when only some objects of a collection are asked for.

use super::{capturing::Stage, *};
use crate::{Selection, SelectionPart};

/// Objects with a label, and those in a namespace.
fn selection(labels: &str, namespaces: &[&str]) -> Selection {
    let mut selection = Selection::nothing();
    selection.add(SelectionPart {
        namespaces: namespaces.iter().map(ToString::to_string).collect(),
        labels: labels.parse().unwrap(),
    });
    selection
}

impl Stage {
    fn put_labelled(&self, name: &str, size: u64, labels: &str) {
        self.source.put(&object(&format!(
            "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: {name}, namespace: home, labels: {labels}}}, \
             spec: {{size: {size}}}}}"
        )));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_asked_for_is_not_written_down() {
    let mut stage = Stage::new();
    stage.selection = selection("tier=gold", &[]);
    stage.put_labelled("gold", 1, "{tier: gold}");
    stage.put_labelled("other", 1, "{}");
    stage.start();
    stage.watching().await;
    stage.put_labelled("other", 2, "{}");
    stage.put_labelled("gold", 2, "{}");
    stage.put_labelled("gold", 3, "{}");
    stage.put_labelled("other", 3, "{tier: gold}");
    stage.source.delete("home", "gold");
    stage.put_labelled("gold", 4, "{}");
    stage.put_labelled("other", 4, "{tier: gold}");
    // It leaves as an update, is left alone meanwhile, and its end is told; what enters appears.
    let expected = [
        "+gold ->1 first",
        "~gold 1>2",
        "+other ->3",
        "-gold 3>-",
        "~other 3>4",
    ];
    assert_eq!(stage.log(5).await, expected);
    stage.stop().await;
    // The same after a restart that must list.
    stage.put_labelled("gold", 5, "{}");
    stage.put_labelled("other", 5, "{}");
    stage.source.compact();
    stage.start();
    assert_eq!(stage.log(6).await.split_off(5), ["~other 4>5 relist"]);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn asking_for_more_leaves_no_hole() {
    let mut stage = Stage::new();
    stage.selection = selection("tier=gold", &[]);
    stage.put_labelled("gold", 1, "{tier: gold}");
    stage.put_labelled("plain", 1, "{}");
    stage.start();
    stage.watching().await;
    stage.stop().await;
    // While nobody looks, so that the watch tells of it again afterwards.
    stage.put_labelled("plain", 2, "{}");
    stage.put_labelled("gold", 2, "{tier: gold}");
    stage.put_labelled("gold", 3, "{tier: gold}");
    stage.selection = selection("", &["home"]);
    stage.start();
    stage.watching().await;
    stage.put_labelled("plain", 3, "{}");
    let mut log = stage.log(5).await;
    log.sort();
    let expected = [
        "+gold ->1 first",
        "+plain ->2 first",
        "~gold 1>2",
        "~gold 2>3",
        "~plain 2>3",
    ];
    assert_eq!(log, expected);
    assert_eq!(stage.journal().holes(), []);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_asked_for_for_a_while_has_a_hole() {
    let mut stage = Stage::new();
    for name in ["gold", "plain", "still", "gone"] {
        let labels = if name == "gold" { "{tier: gold}" } else { "{}" };
        stage.put_labelled(name, 1, labels);
    }
    stage.start();
    stage.watching().await;
    stage.stop().await;
    stage.selection = selection("tier=gold", &[]);
    stage.start();
    stage.watching().await;
    stage.put_labelled("plain", 2, "{}");
    stage.put_labelled("plain", 3, "{}");
    stage.source.delete("home", "gone");
    stage.put_labelled("gold", 2, "{tier: gold}");
    assert_eq!(stage.log(6).await.split_off(4), ["-gone 1>-", "~gold 1>2"]);
    assert_eq!(stage.journal().holes(), []);
    stage.stop().await;
    // What happened outside meanwhile is one change, and is known before the next.
    stage.selection = Selection::Everything;
    stage.start();
    stage.watching().await;
    stage.put_labelled("plain", 4, "{}");
    assert_eq!(
        stage.log(8).await.split_off(6),
        ["~plain 1>3 relist", "~plain 3>4"]
    );
    let holes = stage.journal().holes();
    let [hole] = &holes[..] else {
        panic!("{holes:?}");
    };
    assert_eq!((hole.reason.as_str(), hole.seq), ("not_asked", Seq(7)));
    stage.stop().await;
}

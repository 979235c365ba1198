//! Which history of its source a position belongs to.

use skopos_testkit::{Data, Fault, Rule};

use super::{capturing::Stage, *};

fn reasons(stage: &Stage) -> Vec<String> {
    let holes = stage.journal().holes().into_iter();
    holes.map(|hole| hole.reason).collect()
}

#[tokio::test(start_paused = true)]
async fn a_source_that_lost_its_data_while_it_was_followed_is_the_same_after_a_restart() {
    let mut stage = Stage::new();
    stage.put("a", 1);
    stage.start();
    stage.log(1).await;
    stage.watching().await;
    stage.source.restart(Data::Lost);
    stage.put("b", 1);
    stage.log(3).await;
    stage.watching().await;
    stage.put("b", 2);
    stage.log(4).await;
    assert_eq!(reasons(&stage), ["other_history"]);
    stage.stop().await;
    stage.start();
    stage.put("b", 3);
    assert_eq!(stage.log(5).await[4..], ["~b 2>3"]);
    assert_eq!(reasons(&stage), ["other_history"]);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_say_its_history_once_is_known_by_what_it_said_before() {
    let mut stage = Stage::new();
    stage.put("a", 1);
    stage.start();
    stage.log(1).await;
    stage.watching().await;
    stage.stop().await;
    let silent = stage.source.faults().add(Rule::get().then(Fault::Refused));
    stage.start();
    stage.put("a", 2);
    stage.log(2).await;
    stage.stop().await;
    silent.remove();
    stage.source.restart(Data::Lost);
    for size in 1..=5 {
        stage.put("b", size);
    }
    stage.start();
    assert_eq!(stage.log(4).await[2..], ["+b ->5 relist", "-a 2>- relist"]);
    stage.watching().await;
    assert_eq!(reasons(&stage), ["other_history"]);
    stage.stop().await;
}

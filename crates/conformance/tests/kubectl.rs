//! The real kubectl, through everything people do with it. Scripts and expected answers: `scripts/kubectl`.

use skopos_conformance::play;

macro_rules! scripts {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            if let Err(error) = play(concat!("kubectl/", stringify!($name))) {
                panic!("{error:#}");
            }
        }
    )*};
}

scripts! { apply change crd delete describe discovery explain get invalid many namespaces serverside wait watch }

//! A real server that others use too: group and namespace of the tests get names of their own there.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::harness::Response;

pub(crate) struct Real {
    client: kube::Client,
    /// What a test calls something, and what it is called there.
    names: [(String, String); 2],
}

impl Real {
    pub(crate) async fn connect(kubeconfig: &str) -> Real {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = config.unwrap();
        config.read_timeout = None;
        let run = &uuid::Uuid::new_v4().simple().to_string()[..6];
        let names = [
            ("example.com", format!("t{run}.example.com")),
            ("home", format!("home-{run}")),
        ];
        let names = names.map(|(here, there)| (here.to_owned(), there));
        Real {
            client: kube::Client::try_from(config).unwrap(),
            names,
        }
    }

    pub(crate) async fn call(&self, request: http::Request<Body>) -> Response {
        let response = self.client.send(request).await.unwrap();
        response.map(|body| body.map_err(|error| error.to_string()).boxed_unsync())
    }

    pub(crate) fn outbound(&self, text: &str) -> String {
        self.names
            .iter()
            .fold(text.to_owned(), |text, (here, there)| text.replace(here, there))
    }

    pub(crate) fn inbound(&self, bytes: &[u8]) -> Bytes {
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                let text = self
                    .names
                    .iter()
                    .fold(text.to_owned(), |text, (here, there)| text.replace(there, here));
                text.into()
            }
            Err(_) => Bytes::copy_from_slice(bytes),
        }
    }
}

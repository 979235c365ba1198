//! The embedded control plane: CRDs and resources over the Kubernetes HTTP API, also in process.

//! Names that Lambda makes up: request ids, trace ids, log streams.

/// Random bytes. The operating system's generator does not fail on a running machine; if it ever did, ids would
/// repeat, and a repeated id only confuses the log.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = getrandom::fill(&mut bytes);
    bytes
}

/// An invocation's id.
pub(crate) fn request_id() -> String {
    crate::engine::random_id()
}

/// An X-Ray trace header: nothing is sampled here.
pub(super) fn trace_id(now_ms: i64) -> String {
    let [parent, middle] = [(); 2].map(|()| u64::from_be_bytes(random()));
    let end = u32::from_be_bytes(random());
    format!("Root=1-{:08x}-{middle:016x}{end:08x};Parent={parent:016x};Sampled=0", now_ms / 1000)
}

/// The name of an environment's log stream.
pub(super) fn log_stream(now_ms: i64) -> String {
    let day = jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default().strftime("%Y/%m/%d").to_string();
    format!("{day}/[$LATEST]{:032x}", u128::from_be_bytes(random()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_are_version_4_uuids() {
        let id = request_id();
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert_eq!(id.as_bytes()[14], b'4');
        assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
        assert_ne!(id, request_id());
    }

    #[test]
    fn trace_ids_and_log_streams_have_the_shape_of_awss() {
        let trace = trace_id(1_700_000_000_000);
        assert!(trace.starts_with("Root=1-6553f100-") && trace.ends_with(";Sampled=0"), "{trace}");
        assert!(log_stream(1_700_000_000_000).starts_with("2023/11/14/[$LATEST]"));
    }
}

//! A plain HTTP connection that sends requests prepared in advance. A general client would cost as much processor time
//! as the system that it measures.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Problem;

/// An answer longer than this is not one to a purchase.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// A connection that stays open between requests.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// The answer to a request.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

/// A request of a buyer, ready to be sent as often as needed.
pub(crate) fn post(host: &str, path: &str, authorization: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: {authorization}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

impl Connection {
    pub(crate) async fn open(host: &str) -> Result<Self, Problem> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::with_capacity(4096) })
    }

    /// Sends a request and waits for its whole answer.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<Answer<'_>, Problem> {
        self.received.clear();
        self.stream.write_all(request).await?;
        loop {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err("the connection was closed before the answer was complete".into());
            }
            if let Some((status, from, to)) = parse(&self.received)? {
                return Ok(Answer { status, body: self.received.get(from..to).unwrap_or_default() });
            }
        }
    }
}

/// The status and where the body is, once all of it is there.
fn parse(received: &[u8]) -> Result<Option<(u16, usize, usize)>, Problem> {
    if received.len() > MAX_ANSWER_BYTES {
        return Err("the answer is too long".into());
    }
    let Some(head_end) = received.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(received.get(..head_end).unwrap_or_default())?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let status = status.ok_or("the answer is not HTTP")?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let from = head_end + 4;
    let to = from + length.ok_or("the answer has no content-length")?;
    Ok((received.len() >= to).then_some((status, from, to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_when_its_body_is() {
        let answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 4\r\nx: y\r\n\r\nabcd";
        for part in 0..answer.len() {
            assert_eq!(parse(&answer[..part]).unwrap(), None, "{part}");
        }
        let (status, from, to) = parse(answer).unwrap().unwrap();
        assert_eq!((status, &answer[from..to]), (202, b"abcd".as_slice()));
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err() && parse(b"nonsense\r\n\r\n").is_err());
    }
}

//! `/admin/dead-letters`: lists what could not be handled, and sends it again.

use edge::{Body, Code, Problem, Response, response};
use lambda_http::http::StatusCode;
use serde::Serialize;
use store::dead_letters::{DeadLetters, LetterKind, QueueError};

use crate::App;

/// Letters shown of each kind. An operator who has more uses the terminal, or looks for the cause.
const SHOWN: usize = 50;
/// Letters sent again in one request, for which API Gateway waits 30 seconds. The next request sends the rest.
const REDRIVEN: usize = 500;
/// Characters of a letter's body that are shown.
const BODY_CHARS: usize = 2_000;

#[derive(Serialize)]
struct LettersView {
    queues: Vec<QueueView>,
}

#[derive(Serialize)]
struct QueueView {
    kind: &'static str,
    words: &'static str,
    remedy: &'static str,
    letters: Vec<LetterView>,
    more: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LetterView {
    order_id: Option<String>,
    reason: String,
    body: String,
}

#[derive(Serialize)]
struct Redriven {
    kind: &'static str,
    handled: usize,
}

pub(crate) async fn list(app: &App) -> Result<Response<Body>, Problem> {
    let all = letters(app)?;
    // One more than is shown tells whether there are more. All queues are read concurrently: reading each one
    // takes a wait.
    let [orders, deadlines, stock, push, walks] = LetterKind::ALL.map(|kind| all.list(kind, SHOWN + 1));
    let (orders, deadlines, stock, push, walks) =
        tokio::try_join!(orders, deadlines, stock, push, walks).map_err(problem)?;
    let mut queues = Vec::new();
    for (kind, letters) in LetterKind::ALL.into_iter().zip([orders, deadlines, stock, push, walks]) {
        let more = letters.len() > SHOWN;
        let shown = letters.into_iter().take(SHOWN).map(|letter| LetterView {
            order_id: letter.order,
            reason: letter.reason,
            body: letter.body.chars().take(BODY_CHARS).collect(),
        });
        let (words, remedy) = (kind.words(), kind.remedy());
        queues.push(QueueView { kind: kind.as_str(), words, remedy, letters: shown.collect(), more });
    }
    Ok(response::json(StatusCode::OK, &LettersView { queues }))
}

pub(crate) async fn redrive(app: &App, kind: &str) -> Result<Response<Body>, Problem> {
    let kind = LetterKind::ALL.into_iter().find(|known| known.as_str() == kind).ok_or_else(Problem::not_found)?;
    let log = |letter: &store::dead_letters::Letter| {
        tracing::info!(order_id = letter.order, reason = letter.reason, "a dead letter is sent again");
    };
    let handled = letters(app)?.redrive(kind, REDRIVEN, log).await.map_err(problem)?;
    Ok(response::json(StatusCode::OK, &Redriven { kind: kind.as_str(), handled }))
}

fn letters(app: &App) -> Result<&DeadLetters, Problem> {
    app.dead_letters
        .as_ref()
        .ok_or_else(|| Problem::new(Code::Unavailable, "this function is not configured to reach the dead letters"))
}

fn problem(error: QueueError) -> Problem {
    tracing::error!(%error, "dead letters could not be handled");
    Problem::new(Code::Unavailable, "the queues do not answer right now: try again in a moment")
}

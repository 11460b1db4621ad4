//! When the secret is read, how its content is used, and what happens while it cannot be read.

use futures::future::join_all;
use payments::ProviderError;

use super::*;
use crate::Trouble;

async fn trouble(providers: &Providers, kind: ProviderKind, seconds: i64) -> String {
    match providers.get(kind, at(seconds)).await {
        Err(Trouble::Settings(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn without_a_secret_nothing_is_configured_and_nothing_is_read() {
    let secrets = Secrets::holding("{}");
    for secret in [None, Some(String::new())] {
        let providers = Providers::new(&secrets.config(), secret, nowhere(), random());
        assert_eq!(providers.configured(at(0)).await, Ok(vec![]));
        assert!(!providers.renew(at(600)).await);
        assert_eq!(
            providers.get(ProviderKind::Stripe, at(0)).await.unwrap_err(),
            Trouble::NotConfigured(ProviderKind::Stripe)
        );
    }
    assert_eq!(secrets.asked(), 0);
}

#[tokio::test]
async fn an_empty_secret_configures_nothing() {
    let providers = Secrets::holding("{}").providers(nowhere());
    assert_eq!(providers.configured(at(0)).await, Ok(vec![]));
    let missing = providers.get(ProviderKind::Alipay, at(0)).await.unwrap_err();
    assert_eq!(missing.to_string(), "alipay is not configured: the payment providers' secret has no settings for it");
    assert!(!missing.may_pass());
}

#[tokio::test]
async fn the_error_of_an_unreadable_secret_tells_what_to_do() {
    for (says, what_to_do) in [
        (Says::Refusal("ResourceNotFoundException"), "put {} there to start with"),
        (Says::Refusal("AccessDeniedException"), "must allow secretsmanager:GetSecretValue"),
        (Says::Refusal("ThrottlingException"), "ThrottlingException"),
        (Says::Nothing, "nobody there"),
        (Says::Binary, "must be text, not binary"),
        (Says::Text("SECRET".to_owned()), "must be one JSON object by provider name; see line 1"),
        (Says::Text("{\n\"stripe\": SECRET}".to_owned()), "see line 2"),
        (Says::Text("[\"SECRET\"]".to_owned()), "must be one JSON object"),
    ] {
        let providers = Secrets::new(says).providers(nowhere());
        let said = trouble(&providers, ProviderKind::Stripe, 0).await;
        assert!(said.contains(what_to_do) && said.contains("the-secret") && !said.contains("SECRET"), "{said}");
        assert!(providers.configured(at(0)).await.is_err_and(|error| error.may_pass()), "it can be corrected");
    }
}

#[tokio::test]
async fn bad_settings_affect_their_own_provider_only() {
    let (_, good) = stripe("sk_test_1");
    let text = secret([
        (ProviderKind::Alipay, r#"{"appId": "SECRET"}"#.to_owned()),
        (
            ProviderKind::WechatV2,
            r#"{"appId": "a b", "mchId": "1", "key": "SECRETSECRETSECRETSECRETSECRETSE", "signType": "MD5"}"#
                .to_owned(),
        ),
        (ProviderKind::Stripe, good),
    ]);
    let providers = Secrets::holding(text.replacen('{', "{\"paypal\": {\"x\": 1}, ", 1)).providers(nowhere());
    assert_eq!(providers.configured(at(0)).await, Ok(vec![ProviderKind::Stripe]));
    assert_eq!(providers.get(ProviderKind::Stripe, at(0)).await.unwrap().kind(), ProviderKind::Stripe);
    let alipay = trouble(&providers, ProviderKind::Alipay, 0).await;
    assert!(alipay.contains("settings of alipay") && alipay.contains("missing field `sellerId`"), "{alipay}");
    let wechat = trouble(&providers, ProviderKind::WechatV2, 0).await;
    assert!(wechat.contains("appId must be 1 to 64 letters"), "{wechat}");
    assert!(!format!("{alipay}{wechat}{providers:?}").contains("SECRET"));
    assert_eq!(
        providers.get(ProviderKind::WechatV3, at(0)).await.unwrap_err(),
        Trouble::NotConfigured(ProviderKind::WechatV3)
    );
}

#[tokio::test]
async fn a_client_certificate_is_checked_when_it_is_read() {
    let client = (include_str!("certificates/client.pem"), include_str!("certificates/client.key"));
    let server_key = include_str!("certificates/server.key");
    for ((certificate, key), problem) in [
        (client, None),
        ((client.0, server_key), Some("clientKey must be the key of clientCertificate")),
        ((client.0, "SECRET"), Some("clientKey must be an unencrypted key in PEM")),
        (("SECRET", client.1), Some("clientCertificate must be certificates in PEM")),
    ] {
        let settings = serde_json::json!({
            "appId": "a", "mchId": "1", "key": "0123456789abcdef0123456789abcdef", "signType": "MD5",
            "clientCertificate": certificate, "clientKey": key,
        });
        let providers = Secrets::holding(secret([(ProviderKind::WechatV2, settings.to_string())])).providers(nowhere());
        match problem {
            None => assert!(providers.get(ProviderKind::WechatV2, at(0)).await.is_ok()),
            Some(problem) => {
                let said = trouble(&providers, ProviderKind::WechatV2, 0).await;
                assert!(said.ends_with(problem) && !said.contains("SECRET"), "{said}");
            }
        }
    }
}

#[tokio::test]
async fn concurrent_first_uses_share_one_read() {
    let secrets = Secrets::holding(secret([stripe("sk_test_1")]));
    let providers = secrets.providers(nowhere());
    let all = join_all((0..20).map(|_| providers.get(ProviderKind::Stripe, at(0)))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(secrets.asked(), 1);

    let secrets = Secrets::new(Says::Nothing);
    let providers = secrets.providers(nowhere());
    let all = join_all((0..20).map(|_| providers.get(ProviderKind::Stripe, at(0)))).await;
    assert!(all.iter().all(Result::is_err));
    assert_eq!(secrets.asked(), 1, "all that waited share the failure");
    secrets.hold(secret([stripe("sk_test_1")]));
    assert!(providers.get(ProviderKind::Stripe, at(1)).await.is_ok(), "and the failure is not cached for longer");
}

#[tokio::test]
async fn settings_are_refreshed_after_five_minutes() {
    let secrets = Secrets::holding(secret([stripe("sk_test_1")]));
    let providers = secrets.providers(nowhere());
    let first = providers.get(ProviderKind::Stripe, at(0)).await.unwrap();
    secrets.hold("{}");
    assert!(providers.get(ProviderKind::Stripe, at(299)).await.is_ok());
    assert_eq!(secrets.asked(), 1);
    assert_eq!(
        providers.get(ProviderKind::Stripe, at(300)).await.unwrap_err(),
        Trouble::NotConfigured(ProviderKind::Stripe)
    );
    assert_eq!(secrets.asked(), 2);
    secrets.hold(secret([stripe("sk_test_1")]));
    let second = providers.get(ProviderKind::Stripe, at(600)).await.unwrap();
    let third = providers.get(ProviderKind::Stripe, at(900)).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &second), "other settings in between");
    assert!(Arc::ptr_eq(&second, &third), "the same text keeps the provider and its connections");
    assert_eq!(secrets.asked(), 4);
}

#[tokio::test]
async fn previous_settings_stay_in_use_while_the_secret_cannot_be_read() {
    for broken in [Says::Nothing, Says::Refusal("AccessDeniedException"), Says::Text("oops".to_owned())] {
        let secrets = Secrets::holding(secret([stripe("sk_test_1")]));
        let providers = secrets.providers(nowhere());
        providers.get(ProviderKind::Stripe, at(0)).await.unwrap();
        secrets.say(broken);
        for seconds in [300, 301, 329, 330, 359, 86_400] {
            assert!(providers.get(ProviderKind::Stripe, at(seconds)).await.is_ok(), "{seconds}");
        }
        assert_eq!(secrets.asked(), 4, "read at 0, 300, 330 and 86,400 s, and not with every use");
        secrets.hold("{}");
        assert!(providers.get(ProviderKind::Stripe, at(86_430)).await.is_err(), "then the new settings are used");
    }
}

#[tokio::test]
async fn one_caller_refreshes_while_the_others_use_the_previous_settings() {
    let secrets = Secrets::holding(secret([stripe("sk_test_1")]));
    let providers = secrets.providers(nowhere());
    providers.get(ProviderKind::Stripe, at(0)).await.unwrap();
    secrets.hold("{}");
    let all = join_all((0..20).map(|_| providers.get(ProviderKind::Stripe, at(300)))).await;
    assert_eq!(secrets.asked(), 2);
    assert_eq!(
        all.iter().filter(|result| result.is_ok()).count(),
        19,
        "only the caller that refreshes waits for the answer"
    );
}

#[tokio::test]
async fn renew_reads_the_secret_at_most_once_a_minute() {
    let secrets = Secrets::holding(secret([stripe("sk_test_1")]));
    let providers = secrets.providers(nowhere());
    assert!(providers.renew(at(-60)).await, "the first read");
    assert_eq!(secrets.asked(), 1);
    assert!(!providers.renew(at(-1)).await, "read less than a minute ago");
    assert_eq!(secrets.asked(), 1);
    assert!(!providers.renew(at(0)).await, "the same settings");
    assert_eq!(secrets.asked(), 2);
    secrets.hold(secret([stripe("sk_test_2")]));
    assert!(!providers.renew(at(59)).await);
    assert_eq!(secrets.asked(), 2);
    assert!(providers.renew(at(60)).await, "other settings");
    secrets.say(Says::Nothing);
    assert!(!providers.renew(at(120)).await);
    assert!(providers.get(ProviderKind::Stripe, at(120)).await.is_ok());
    assert!(!providers.renew(at(179)).await);
    assert_eq!(secrets.asked(), 4, "a failed read counts too");
}

#[test]
fn only_a_refusal_or_missing_support_is_final() {
    let refused = ProviderError::Refused { code: "X".to_owned(), message: String::new() };
    for (trouble, may_pass) in [
        (Trouble::NotConfigured(ProviderKind::Alipay), false),
        (Trouble::Settings(String::new()), true),
        (ProviderError::Unavailable(String::new()).into(), true),
        (ProviderError::Untrusted("").into(), true),
        (ProviderError::Unsupported(String::new()).into(), false),
        (refused.into(), false),
    ] {
        assert_eq!(trouble.may_pass(), may_pass, "{trouble:?}");
    }
}

#[test]
fn points_have_no_provider() {
    use domain::payment::Method;
    let without: Vec<_> = Method::ALL.into_iter().filter(|method| ProviderKind::of(*method).is_none()).collect();
    assert_eq!(without, [Method::Points]);
}

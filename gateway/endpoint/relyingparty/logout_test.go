package relyingparty_test

import (
	"crypto/ecdsa"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// logoutForm returns the form by which a provider says that a user has signed out there.
func logoutForm(p *rig.Provider, key *ecdsa.PrivateKey, changes map[string]any) string {
	claims := map[string]any{
		"jti": "1", "events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": struct{}{}},
	}
	maps.Copy(claims, changes)
	token, _ := p.Tokens(key, claims)["id_token"].(string)
	return url.Values{"logout_token": {token}}.Encode()
}

// A logout token that is refused leaves an event and ends no login. The token is in no log.
func TestLogoutTokensRefusedAudited(t *testing.T) {
	t.Parallel()
	r, p := rig.Delegated(t, "")
	cookie := r.Carol()
	for _, form := range []string{
		"logout_token=not-a-token",
		logoutForm(p, rig.NewECKey(t), nil),
		logoutForm(p, p.Key, map[string]any{"iat": r.Clock.Now().Add(-time.Hour).Unix()}),
		logoutForm(p, p.Key, map[string]any{"aud": "another"}),
	} {
		r.Post(400, "/backchannel-logout/small", form, "")
		if token := strings.TrimPrefix(form, "logout_token="); strings.Contains(r.Log.String(), token) {
			t.Errorf("the log has %s", token)
		}
	}
	r.Want(200, "GET", "/delegated/", "", cookie)
	r.Post(200, "/backchannel-logout/small", logoutForm(p, p.Key, nil), "")
	r.Want(401, "GET", "/delegated/", "", cookie)
	got := r.EventsOf("credential_refused", "past", "cross_site", "kind", "reason", "client_id", "subject")
	const invalid = "kind=logout_token reason=provider small: logout token: token not valid: "
	want := []string{
		invalid + "is not a JWT in the compact form",
		invalid + "the signature does not verify: crypto/ecdsa: verification error",
		invalid + "it is older than 10m0s",
		invalid + `aud is ["another"], expected one of ["gateway"]`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
	if got := r.EventsOf("backchannel_logout"); len(got) != 1 {
		t.Errorf("%d events of the logout, want 1", len(got))
	}
}

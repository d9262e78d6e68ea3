package journey

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestValidBrowser(t *testing.T) {
	t.Parallel()
	good := NewBrowserSecret()
	base64url := func(bytes int) string { return base64.RawURLEncoding.EncodeToString(make([]byte, bytes)) }
	if !ValidBrowserSecret(good) {
		t.Errorf("%q is refused", good)
	}
	for _, bad := range []string{
		"", good[:42], good + "A", good + "=", good[:20] + "\n" + good[20:], good[:20] + "\n" + good[21:], loosen(good),
		base64url(31), base64url(33), strings.Repeat("A", 1<<20),
	} {
		if ValidBrowserSecret(bad) {
			t.Errorf("%q passes", bad)
		}
	}
}

// Each secret has 256 random bits, and none is given twice. The verifier has the form of RFC
// 7636, section 4.1.
func TestSecretsAreRandom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seen := make(map[string]bool)
	for range 20 {
		a := r.attempts.New("browser", "keycloak", testProvider, "")
		for i, secret := range []string{a.State, a.Nonce, a.Verifier, NewBrowserSecret(), r.ticketFor(t, "browser")} {
			raw, err := base64.RawURLEncoding.DecodeString(secret)
			if err != nil || len(raw) != 32 || seen[secret] {
				t.Errorf("secret %d has %d bytes, given before: %v; want 32 new ones", i, len(raw), seen[secret])
			}
			seen[secret] = true
		}
	}
}

// What proves a sign-in is of one session, host and binding, and shows none of them.
func TestBegun(t *testing.T) {
	t.Parallel()
	session, binding := newSecret(), Binding(NewBrowserSecret())
	proof := Begun(session, otherHost, binding)
	if proof != Begun(session, otherHost, binding) || !ValidBinding(proof) {
		t.Errorf("the proof %q", proof)
	}
	for what, other := range map[string]string{
		"another session": Begun(newSecret(), otherHost, binding), "another host": Begun(session, homeHost, binding),
		"another binding":    Begun(session, otherHost, Binding(session)),
		"parts that join":    Begun(session, otherHost+binding[:1], binding[1:]),
		"the session's hash": Binding(session),
	} {
		if other == proof {
			t.Errorf("%s has the same proof", what)
		}
	}
}

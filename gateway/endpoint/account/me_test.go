package account_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

func TestMe(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Edit(t, rig.Base, "username: bob, roles: [user]", "username: bob"))
	alice := r.Login(rig.Alice)
	for mechanism, c := range map[string]struct {
		header string
		ends   time.Duration
	}{"session": {alice.Cookie, time.Hour}, "bearer": {alice.Bearer, 15 * time.Minute}} {
		w, page := r.Want(200, "GET", "/me", "", c.header), r.Want(200, "GET", "/me", "", c.header, rig.Browser)
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"username": "alice", "name": "Alice Example", "email": "alice@example.org", "roles": []any{"user", "admin"},
			"mechanism": mechanism, "provider": "local", "expires_at": r.Clock.Now().Add(c.ends).UTC().Format(time.RFC3339),
			"amr": []any{"pwd"}, "auth_time": float64(r.Clock.Now().Unix()),
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %v\nwant %v", mechanism, got, want)
		}
		if !strings.HasPrefix(page.Header().Get("Content-Type"), "text/html") ||
			!strings.Contains(page.Body.String(), "Alice Example") {
			t.Errorf("%s: the page: %s", mechanism, page.Header().Get("Content-Type"))
		}
	}
	if w := r.Want(200, "GET", "/me", "", r.Login(rig.Bob).Cookie); !strings.Contains(w.Body.String(), `"roles":[]`) {
		t.Errorf("a user without roles: %s", w.Body)
	}
}

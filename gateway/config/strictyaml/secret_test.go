package strictyaml

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"authgate/gateway/logtest"
)

// A secret, alone or in another value, is not printed, logged or encoded: neither
// as text nor as the numbers of its bytes.
func TestSecretDoesNotPrint(t *testing.T) {
	t.Parallel()
	s := Secret("sesame")
	word := []byte(s.Reveal())
	forms := []string{
		"sesame", fmt.Sprintf("%x", word), strings.Trim(fmt.Sprint(word), "[]"), strings.Trim(strings.TrimPrefix(fmt.Sprintf("%#v", word), "[]byte"), "{}"),
	}
	for _, value := range []any{s, &s, []Secret{s}, map[string]Secret{"x": s}, struct{ Name, Password any }{"a", s}} {
		encoded, err := json.Marshal(value)
		if err != nil {
			t.Errorf("%T as JSON: %v", value, err)
		}
		log := &logtest.Buffer{}
		for _, handler := range []slog.Handler{slog.NewJSONHandler(log, nil), slog.NewTextHandler(log, nil)} {
			slog.New(handler).Info("secret", "value", value, slog.Group("group", "in", value))
		}
		shown := fmt.Sprintf("%v %+v %#v %s %q %x %X", value, value, value, value, value, value, value) + string(encoded) + log.String()
		for _, form := range forms {
			if strings.Contains(strings.ToLower(shown), form) {
				t.Errorf("%T shows a secret as %s: %s", value, form, shown)
			}
		}
	}
	if Secret("").String() != "" {
		t.Error("no secret prints as one")
	}
}

// In each text the word hidden may be a secret, and the word shown is not.
func TestMaskYAML(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		"secret: hidden", "secret: \"hidden hidden\" # hidden", "\"secret\": hidden", "secret : hidden", "PASSWORD: hidden",
		"{\"secret\":\"hidden\", shown: 1}", "shown: {username: shown, password_hash: hidden, roles: [hidden]}",
		"- shown: 1\n- password: hidden\n  shown: 2", "introspection:\n  client_id: shown\n  client_secret: hidden\ntimeout: shown",
		// keys that are misspelled or longer
		"client_secrte: hidden", "pasword_hash: hidden", "database_password: hidden", "encryption_key: hidden\nencrypton_key: hidden",
		"sentinel_password: hidden\nsentinel_pasword: hidden\nsentinel_username: shown",
		// values on several lines
		"secret:\n  hidden\nshown: 1", "secret: |\n  hidden\n\n  hidden\nshown: 1", "secret: |\n  hidden: hidden\nshown: 1",
		"secret: \"hidden\nhidden\n  hidden\"\nshown: 1", "secret:\n  # shown\n  hidden",
		// values that show what they are
		"name: $2y$10$hidden", "name: shown $argon2id$v=19$hidden shown", "x: $apr1$hidden\ny: \"{SHA}hidden\"", "url: http://hidden:hidden@shown:9000/shown",
		// no secrets
		"htpasswd: shown\nsecret_file: shown\nprivate_key: shown\nkey: shown\nkey_prefix: shown\nencryption_key_file: shown",
		"users:\n  - username: shown\n    password_hash: hidden\n    roles:\n      - shown\n  - username: shown",
	} {
		lines := strings.Split(source, "\n")
		o := Options{
			SecretKeys: []string{"secret", "password", "client_secret", "password_hash", "encryption_key", "sentinel_password"},
			PublicKeys: []string{"htpasswd"},
		}
		show := o.maskYAML(lines)
		for i, line := range lines {
			got := show(i)
			if strings.Contains(got, "hidden") {
				t.Errorf("%q: a secret shows: %s", source, got)
			}
			// The rest of a line after a secret may be masked too.
			if strings.Contains(line, "shown") && !strings.Contains(line, "hidden") && got != line {
				t.Errorf("%q: line %d is masked: %q", source, i+1, got)
			}
		}
	}
}

// A secret that was read is masked in other places too.
func TestSecretsAreRedactedEverywhere(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"anchored elsewhere": "name: &a a-well-kept-secret\nsecret: *a\nlabels: {on: a-well-kept-secret}\n",
		"by a variable":      "secret: \"${S}\"\nname: \"${S}\"\n",
	} {
		o := options("c.yaml")
		o.Lookup = func(string) (string, bool) { return "a-well-kept-secret", true }
		r := NewReader(o)
		var into settings
		doc := r.Read("c.yaml", []byte(source), 1<<20, "", &into)
		doc.Fault("name", "%q is bad", into.Name)
		if err := r.Err(); err == nil || strings.Contains(err.Error(), "well-kept") || !strings.Contains(err.Error(), Masked) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 50)
	for _, c := range []struct {
		d    Diagnostic
		want string
	}{
		{Diagnostic{Line: 1, Column: 1, Source: "abc"}, "  1 | abc\n    | ^"},
		{Diagnostic{Line: 12, Column: 4, Source: "abc"}, "  12 | abc\n     |    ^"},
		{Diagnostic{Line: 1, Column: 90, Source: "abc"}, "  1 | abc\n    |    ^"}, // behind a mask
		{Diagnostic{Line: 1, Column: 3, Source: "\tab"}, "  1 | \tab\n    | \t ^"},
		{Diagnostic{Line: 1, Column: 3, Source: "éüx"}, "  1 | éüx\n    |   ^"},
		{Diagnostic{Line: 1, Column: 251, Source: long}, "  1 | " + long[190:310] + "\n    | " + strings.Repeat(" ", 60) + "^"},
		{Diagnostic{Line: 1, Column: 501, Source: long}, "  1 | " + long[380:] + "\n    | " + strings.Repeat(" ", 120) + "^"},
	} {
		if got := c.d.excerpt(); got != c.want {
			t.Errorf("line %d, column %d: got\n%s\nwant\n%s", c.d.Line, c.d.Column, got, c.want)
		}
	}
}

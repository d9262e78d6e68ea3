package strictyaml

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"authgate/internal/test/logtest"
)

// A secret, alone or in another value, is not printed, logged or encoded: neither
// as text nor as the numbers of its bytes.
func TestSecretDoesNotPrint(t *testing.T) {
	t.Parallel()
	s := Secret("sesame")
	word := []byte(s.Reveal())
	forms := []string{
		"sesame", fmt.Sprintf("%x", word), strings.Trim(fmt.Sprint(word), "[]"),
		strings.Trim(strings.TrimPrefix(fmt.Sprintf("%#v", word), "[]byte"), "{}"),
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
		shown := fmt.Sprintf("%v %+v %#v %s %q %x %X", value, value, value, value, value, value, value) +
			string(encoded) + log.String()
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
		"- shown: 1\n- password: hidden\n  shown: 2",
		"introspection:\n  client_id: shown\n  client_secret: hidden\ntimeout: shown",
		// keys that are misspelled or longer
		"client_secrte: hidden", "pasword_hash: hidden", "database_password: hidden",
		"encryption_key: hidden\nencrypton_key: hidden",
		"sentinel_password: hidden\nsentinel_pasword: hidden\nsentinel_username: shown",
		// values on several lines
		"secret:\n  hidden\nshown: 1", "secret: |\n  hidden\n\n  hidden\nshown: 1", "secret: |\n  hidden: hidden\nshown: 1",
		"secret: \"hidden\nhidden\n  hidden\"\nshown: 1", "secret:\n  # shown\n  hidden",
		// values that show what they are
		"name: $2y$10$hidden", "name: shown $argon2id$v=19$hidden shown",
		"x: $apr1$hidden\ny: \"{SHA}hidden\"", "url: http://hidden:hidden@shown:9000/shown",
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
		if err := r.Err(); err == nil ||
			strings.Contains(err.Error(), "well-kept") || !strings.Contains(err.Error(), Masked) {
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
		{Diagnostic{Line: 1, Column: 251, Source: long},
			"  1 | " + long[190:310] + "\n    | " + strings.Repeat(" ", 60) + "^"},
		{Diagnostic{Line: 1, Column: 501, Source: long}, "  1 | " + long[380:] + "\n    | " + strings.Repeat(" ", 120) + "^"},
	} {
		if got := c.d.excerpt(); got != c.want {
			t.Errorf("line %d, column %d: got\n%s\nwant\n%s", c.d.Line, c.d.Column, got, c.want)
		}
	}
}

// flawed are secrets that cannot be right, by what is wrong with them.
var flawed = map[string]string{
	" \t":              "blank",
	"\u00a0":           "blank",
	"\ufeffabc":        "byte order mark",
	"ab\ufeffc":        "byte order mark",
	"\xff\xfea\x00b":   "UTF-16",
	"\xfe\xff\x00a":    "UTF-16",
	"a\x00b\x00":       "UTF-16",
	"\x00a\x00b":       "UTF-16",
	"caf\xe9":          "not UTF-8",
	"abc\n":            "line break",
	"abc\r":            "line break",
	"a\nb":             "line break",
	"abc\u2028":        "space",
	"a\x00bc":          "U+0000",
	"a\x07b":           "U+0007",
	"a\u0085b":         "U+0085",
	"a\tb":             "U+0009",
	" abc":             "space",
	"abc ":             "space",
	"abc\u00a0":        "space",
	"\u3000abc":        "space",
	"a secret\r\n\r\n": "line break",
}

// sound are secrets that are fine.
var sound = []string{
	"x", "hunter2", "two words", "pässwörd", "密码", "c2VjcmV0IQ==", "a+b/c==", "$ecret", "a#b: c", `"quoted"`,
	"👩‍💻", "\ufffd", "-----BEGIN",
}

func TestSecretCheck(t *testing.T) {
	t.Parallel()
	for text, want := range flawed {
		message := fmt.Sprint(Secret(text).Check())
		if !strings.Contains(message, want) || strings.Contains(message, "abc") {
			t.Errorf("%q: got %s, want %q", text, message, want)
		}
	}
	if err := Secret("").Check(); err == nil || !strings.Contains(err.Error(), "blank") {
		t.Errorf("an empty one: %v", err)
	}
	for _, text := range sound {
		if err := Secret(text).Check(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// readSecret reads a configuration whose variable S has a value, and whose folder
// has a file with a content. It returns the secret and the only diagnostic.
func readSecret(t *testing.T, source, variable, file string) (secret, problem string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(filepath.Join(dir, "c.yaml"))
	o.Lookup = func(name string) (string, bool) { return variable, name == "S" }
	r := NewReader(o)
	var into settings
	r.Read(o.Main, []byte(source), 1<<20, "", &into)
	if err, ok := errors.AsType[Diagnostics](r.Err()); ok {
		if len(err) != 1 || into.Secret != "" {
			t.Errorf("%q: got %v and the secret %q", source, err, into.Secret.Reveal())
		}
		return "", err[0].Key + ": " + err[0].Message
	}
	return into.Secret.Reveal(), ""
}

// A secret from a file, a variable or the configuration that cannot be right is an
// error at its key.
func TestFlawedSecrets(t *testing.T) {
	t.Parallel()
	refused := func(source, variable, file, key, want string) {
		t.Helper()
		got, problem := readSecret(t, source, variable, file)
		if !strings.HasPrefix(problem, key+": ") || !strings.Contains(problem, want) {
			t.Errorf("%s with the variable %q and the file %q: got %q, %q; want an error of %s with %q",
				source, variable, file, got, problem, key, want)
		}
	}
	for text, want := range flawed {
		refused("secret: ${S}\n", text, "", "secret", want)
		if !strings.HasSuffix(text, "\n") {
			refused("secret_file: file\n", "", text, "secret_file", want)
		}
		refused("secret_file: file\n", "", text+"\n\n", "secret_file", "")
		if strings.ToValidUTF8(text, "") == text {
			refused("secret: "+strconv.QuoteToASCII(text)+"\n", "", "", "secret", want)
		}
	}
	for _, file := range []string{"", "\n", "\r\n", "abc\n\n", "abc\r\n\r\n", "abc\r", "\ufeff\n"} {
		refused("secret_file: file\n", "", file, "secret_file", "")
	}
	for _, variable := range []string{"", " "} {
		for _, text := range []string{"${S}", "before ${S}", "${S}after", "${S:-default}", "${S:-}"} {
			refused("secret: \""+text+"\"\n", variable, "", "secret", "variable S is blank")
		}
	}
	refused("secret: |\n  abc\n", "", "", "secret", "line break")
	refused("secret: |-\n  abc\n  def\n", "", "", "secret", "line break")
	refused("secret: ${S:- }\n", "", "", "secret", "S is blank")
}

func TestSoundSecrets(t *testing.T) {
	t.Parallel()
	accepted := func(source, variable, file, want string) {
		t.Helper()
		if got, problem := readSecret(t, source, variable, file); got != want || problem != "" {
			t.Errorf("%s with the variable %q and the file %q: got %q, %q; want %q",
				source, variable, file, got, problem, want)
		}
	}
	for _, text := range sound {
		accepted("secret: ${S}\n", text, "", text)
		for _, end := range []string{"", "\n", "\r\n"} {
			accepted("secret_file: file\n", "", text+end, text)
		}
	}
	accepted("secret: \"\"\n", "", "", "")
	accepted("secret: ${NONE:-}\n", "", "", "")
	accepted("secret: |-\n  abc\n", "", "", "abc")
	accepted("secret: >-\n  abc\n  def\n", "", "", "abc def")
	accepted("secret: $${S}\n", "", "", "${S}")
}

// A variable with a character that no text of one line has is an error in any value.
func TestFlawedVariables(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"gate\n", "gate\r", "ga\x00te", "\ufeffgate", "g\xe4te", "\xff\xfeg\x00", "g\u0085"} {
		o := options("c.yaml")
		o.Lookup = func(string) (string, bool) { return value, true }
		r := NewReader(o)
		var into settings
		r.Read("c.yaml", []byte("name: a ${S}\n"), 1<<20, "", &into)
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), "name: the environment variable S ") {
			t.Errorf("%q: got %q, %v", value, into.Name, err)
		}
	}
}

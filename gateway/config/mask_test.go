package config

import (
	"errors"
	"strings"
	"testing"
)

// In each text the word hidden is, or may be, a secret; the word shown is not.
func TestMaskYAML(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"plain":                "secret: hidden",
		"quoted":               "secret: \"hidden hidden\" # hidden",
		"quoted key":           "\"secret\": hidden",
		"space before colon":   "secret : hidden",
		"no space in flow":     "{\"secret\":\"hidden\", shown: 1}",
		"in a flow mapping":    "shown: {username: shown, password_hash: hidden, roles: [hidden]}",
		"in a list":            "- shown: 1\n- password: hidden\n  shown: 2",
		"misspelt":             "client_secrte: hidden",
		"misspelt more":        "pasword_hash: hidden",
		"another case":         "PASSWORD: hidden",
		"longer name":          "database_password: hidden",
		"on the next line":     "secret:\n  hidden\nshown: 1",
		"literal":              "secret: |\n  hidden\n\n  hidden\nshown: 1",
		"with a key shape":     "secret: |\n  hidden: hidden\nshown: 1",
		"in quotes over lines": "secret: \"hidden\nhidden\n  hidden\"\nshown: 1",
		"below a comment":      "secret:\n  # shown\n  hidden",
		"in the wrong place":   "name: $2y$10$hidden",
		"argon2":               "name: shown $argon2id$v=19$hidden shown",
		"encryption key":       "encryption_key: hidden\nencrypton_key: hidden\nencryption_key_file: shown",
		"of Sentinels":         "sentinel_password: hidden\nsentinel_pasword: hidden\nsentinel_username: shown",
		"of introspection":     "introspection:\n  client_id: shown\n  client_secret: hidden\ntimeout: shown",
		"htpasswd kinds":       "x: $apr1$hidden\ny: \"{SHA}hidden\"",
		"in a URL":             "url: http://hidden:hidden@shown:9000/shown",
		"paths":                "htpasswd: shown\nsecret_file: shown\nprivate_key: shown\nkey: shown\nkey_prefix: shown",
		"deeper list":          "users:\n  - username: shown\n    password_hash: hidden\n    roles:\n      - shown\n  - username: shown",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := strings.Split(source, "\n")
			show := maskYAML(lines)
			var out []string
			for i := range lines {
				out = append(out, show(i))
			}
			got := strings.Join(out, "\n")
			if strings.Contains(got, "hidden") {
				t.Errorf("a secret shows:\n%s", got)
			}
			// What stands in a line after a secret may go with it.
			for i, line := range lines {
				if strings.Contains(line, "shown") && !strings.Contains(line, "hidden") && out[i] != line {
					t.Errorf("line %d is masked: %q, of %q", i+1, out[i], line)
				}
			}
		})
	}
}

// A secret that has found its way elsewhere, by an alias or a variable, is
// masked there too.
func TestSecretsAreRedactedEverywhere(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"anchored elsewhere": "data_dir: &a a-well-kept-secret\ntoken: {secret: *a}\nlog: {level: a-well-kept-secret}\n",
		"by a variable":      "token: {secret: \"${S}\"}\nlog: {level: \"${S}\"}\n",
	} {
		_, err := parse("c.yaml", []byte(source), func(string) (string, bool) { return "a-well-kept-secret", true })
		if err == nil || strings.Contains(err.Error(), "well-kept") || !strings.Contains(err.Error(), masked) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 50)
	for name, c := range map[string]struct {
		d    Diagnostic
		want string
	}{
		"start":           {Diagnostic{Line: 1, Column: 1, Source: "abc"}, "  1 | abc\n    | ^"},
		"end":             {Diagnostic{Line: 12, Column: 4, Source: "abc"}, "  12 | abc\n     |    ^"},
		"behind a mask":   {Diagnostic{Line: 1, Column: 90, Source: "abc"}, "  1 | abc\n    |    ^"},
		"tab":             {Diagnostic{Line: 1, Column: 3, Source: "\tab"}, "  1 | \tab\n    | \t ^"},
		"wide characters": {Diagnostic{Line: 1, Column: 3, Source: "éüx"}, "  1 | éüx\n    |   ^"},
		"long": {
			Diagnostic{Line: 1, Column: 251, Source: long},
			"  1 | " + long[190:310] + "\n    | " + strings.Repeat(" ", 60) + "^",
		},
		"long at the end": {
			Diagnostic{Line: 1, Column: 501, Source: long},
			"  1 | " + long[380:] + "\n    | " + strings.Repeat(" ", 120) + "^",
		},
	} {
		if got := c.d.excerpt(); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// Diagnostics name everything: file, line, column and key, and then show it.
func TestDiagnosticsError(t *testing.T) {
	t.Parallel()
	_, err := parse("dir/config.yaml", []byte("log:\n  level: loud\n  fromat: text\n"), lookup)
	if _, ok := errors.AsType[Diagnostics](err); !ok {
		t.Fatalf("got %T", err)
	}
	want := strings.Join([]string{
		`dir/config.yaml:2:10: log.level: "loud" is not known here; expected debug, info, warn or error`,
		`  2 |   level: loud`,
		`    |          ^`,
		`dir/config.yaml:3:3: log.fromat: unknown key; did you mean "format"?`,
		`  3 |   fromat: text`,
		`    |   ^`,
	}, "\n")
	if got := err.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

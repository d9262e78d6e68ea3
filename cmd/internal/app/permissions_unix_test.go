//go:build unix

package app

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/config"
	"authgate/internal/test/logtest"
)

// For each path that others can read or change the log has one warning, whose
// command mends it.
func TestExposedSecrets(t *testing.T) {
	t.Parallel()
	const secret = "01234567890123456789012345678901"
	type modes map[string]fs.FileMode
	for name, c := range map[string]struct {
		modes modes
		want  string // the paths with a warning
	}{
		"closed":                {modes{}, ""},
		"the group may read":    {modes{"data": 0o750, "accounts.yaml": 0o640}, ""},
		"data_dir 0755":         {modes{"data": 0o755}, "data 0755"},
		"data_dir 0770":         {modes{"data": 0o770}, "data 0770"},
		"accounts":              {modes{"accounts.yaml": 0o644}, "accounts.yaml 0644"},
		"a secret, by a group":  {modes{"token.secret": 0o660}, "token.secret 0660"},
		"a generated key":       {modes{"data": 0o711, "data/store.key": 0o604}, "data 0711, data/store.key 0604"},
		"open in a closed room": {modes{"data/store.key": 0o644}, ""},
		"behind a closed door":  {modes{".": 0o700, "data": 0o777, "accounts.yaml": 0o644}, "data 0777"},
	} {
		dir := filepath.Join(openRoom(t), "it's here")
		path := folder(t, dir, map[string]string{
			"config.yaml":   listenAnywhere + memoryStore + routes + "token: {secret_file: token.secret}\ndata_dir: data\n",
			"accounts.yaml": alice, "token.secret": secret, "data/store.key": secret,
		})
		chmod(t, dir, 0o755)
		for place, mode := range c.modes {
			chmod(t, filepath.Join(dir, place), mode)
		}
		log := &logtest.Buffer{}
		a := open(t, path, log)
		shut(t, a)
		var got []string
		for _, record := range log.Records(t, "other users of this machine can read or change secrets") {
			place, err := filepath.Rel(dir, record["path"].(string))
			if err != nil || record["level"] != "WARN" {
				t.Errorf("%s: %v, %v", name, record, err)
			}
			got = append(got, place+" "+record["mode"].(string))
			if out, err := exec.Command("sh", "-c", record["command"].(string)).CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v %s", name, record["command"], err, out)
			}
		}
		if left := exposed(a.Config()); strings.Join(got, ", ") != c.want || len(left) > 0 {
			t.Errorf("%s: warnings about %q, want %s; after the commands %v", name, got, c.want, left)
		}
	}
}

// A file of the configuration that has a secret in itself must be closed to others, as the files
// that it names. Secrets in variables and in other files do not count, and public ones neither.
func TestExposedConfiguration(t *testing.T) {
	t.Parallel()
	const (
		secret   = "01234567890123456789012345678901"
		client   = `oauth: {enabled: true, clients: [{id: app, redirect_uris: ["https://app.example.org/"], `
		provider = `providers: [{name: home, issuer: "https://id.example.org", client_id: gate, client_secret: `
	)
	for name, c := range map[string]struct{ main, part, want string }{
		"no secret":            {"", "", ""},
		"a secret":             {"token: {secret: " + secret + "}\n", "", "config.yaml"},
		"an empty one":         {"token: {secret: ''}\n", "", ""},
		"a variable":           {"token: {secret: '${KEY}'}\n", "", ""},
		"a file":               {"token: {secret_file: key}\n", "", ""},
		"a list":               {client + "secrets: [" + secret + "]}]}\n", "", "config.yaml"},
		"the hash of a user":   {"basic: {users: [" + alice[2:len(alice)-1] + "]}\n", "", "config.yaml"},
		"one that is public":   {provider + "demo-secret}]\n", "", ""},
		"in a part":            {"", provider + "x}]\n", "part.yaml"},
		"in both":              {"token: {secret: " + secret + "}\n", provider + "x}]\n", "config.yaml, part.yaml"},
		"a variable of a part": {"", provider + "'${KEY}'}]\n", ""},
	} {
		dir := openRoom(t)
		path := folder(t, dir, map[string]string{
			"config.yaml":   listenAnywhere + memoryStore + routes + "include: [part.yaml]\n" + c.main,
			"part.yaml":     c.part,
			"accounts.yaml": bob, "key": secret, "data/x": "",
		})
		chmod(t, path, 0o644)
		chmod(t, filepath.Join(dir, "part.yaml"), 0o644)
		environment := config.Environment{Lookup: func(string) (string, bool) { return secret, true }}
		cfg, err := environment.Load(path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, e := range exposed(cfg) {
			if e.what != canReadSecrets || e.command != "chmod g-w,o-rwx "+e.path {
				t.Errorf("%s: %s", name, e)
			}
			got = append(got, filepath.Base(e.path))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: warnings about %q, want %s", name, got, c.want)
		}
	}
}

// For each file of the configuration that others can change, and each folder in which
// they can replace one, the log has one warning, whose command mends it.
func TestChangeableConfiguration(t *testing.T) {
	t.Parallel()
	type modes map[string]fs.FileMode
	const sticky = fs.ModeSticky
	for name, c := range map[string]struct {
		modes modes
		want  string // the paths with a warning
	}{
		"closed":                    {modes{}, ""},
		"readable":                  {modes{"etc": 0o755, "etc/config.yaml": 0o644, "etc/logo.svg": 0o644}, ""},
		"the configuration":         {modes{"etc/config.yaml": 0o666}, "etc/config.yaml 0666"},
		"by a group":                {modes{"etc/config.yaml": 0o664}, "etc/config.yaml 0664"},
		"write only":                {modes{"etc/config.yaml": 0o602}, "etc/config.yaml 0602"},
		"its folder":                {modes{"etc": 0o777}, "etc 0777"},
		"its folder, by a group":    {modes{"etc": 0o775}, "etc 0775"},
		"its folder, sticky":        {modes{"etc": 0o777 | sticky}, ""},
		"a folder above":            {modes{".": 0o777}, ". 0777"},
		"a folder above, sticky":    {modes{".": 0o777 | sticky}, ""},
		"a file in a sticky folder": {modes{"etc": 0o777 | sticky, "etc/config.yaml": 0o646}, "etc/config.yaml 0646"},
		"a public file":             {modes{"etc/logo.svg": 0o646}, "etc/logo.svg 0646"},
		"a file that is read later": {modes{"etc/cluster.token": 0o646}, "etc/cluster.token 0646"},
		"the folder of a file":      {modes{"lists": 0o757}, "lists 0757"},
		"a folder of a link":        {modes{"links": 0o777}, "links 0777"},
		"a folder behind a link":    {modes{"real": 0o777}, "real 0777"},
		"a file behind a link":      {modes{"real/secret": 0o622}, "links/secret 0622"},
		"above data_dir":            {modes{"var": 0o777}, "var 0777"},
		"several": {modes{"etc": 0o777, "etc/config.yaml": 0o666, "lists": 0o777},
			"etc 0777, etc/config.yaml 0666, lists 0777"},
		"a closed room": {modes{".": 0o700, "etc/config.yaml": 0o606, "etc/logo.svg": 0o666},
			"etc/config.yaml 0606, etc/logo.svg 0666"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(openRoom(t), "it's here")
			yaml := strings.Replace(listenAnywhere+memoryStore+routes, "accounts.yaml", "../lists/accounts.yaml", 1) +
				"site: {logo: logo.svg}\ntoken:\n  secret_file: ../links/secret\n  trusted_issuers: [{name: cluster, " +
				"issuer: \"https://issuer.example\", credential_file: cluster.token}]\ndata_dir: ../var/data\n"
			path := filepath.Join(dir, "etc", "config.yaml")
			folder(t, dir, map[string]string{
				"etc/config.yaml": yaml, "lists/accounts.yaml": alice, "etc/logo.svg": `<svg xmlns="http://www.w3.org/2000/svg"/>`,
				"etc/cluster.token": "token",
				"real/secret":       "01234567890123456789012345678901", "links/other": "", "var/data/x": "",
			})
			if err := errors.Join(
				os.Symlink("../links/../links/one", filepath.Join(dir, "links", "secret")),
				os.Symlink(filepath.Join(dir, "real", "secret"), filepath.Join(dir, "links", "one")),
			); err != nil {
				t.Fatal(err)
			}
			for _, place := range []string{".", "etc", "lists", "links", "real", "var"} {
				chmod(t, filepath.Join(dir, place), 0o755)
			}
			for place, mode := range c.modes {
				chmod(t, filepath.Join(dir, place), mode)
			}
			log := &logtest.Buffer{}
			a := open(t, path, log)
			shut(t, a)
			var got []string
			for _, message := range []string{canReplace, canChange, canReadSecrets} {
				for _, record := range log.Records(t, message) {
					place, err := filepath.Rel(dir, record["path"].(string))
					if err != nil || record["level"] != "WARN" {
						t.Errorf("%v, %v", record, err)
					}
					got = append(got, place+" "+record["mode"].(string))
					if out, err := exec.Command("sh", "-c", record["command"].(string)).CombinedOutput(); err != nil {
						t.Errorf("%s: %v %s", record["command"], err, out)
					}
				}
			}
			slices.Sort(got)
			if left := exposed(a.Config()); strings.Join(got, ", ") != c.want || len(left) > 0 {
				t.Errorf("warnings about %q, want %s; after the commands %v", got, c.want, left)
			}
		})
	}
}

// openRoom returns a folder that others can enter.
func openRoom(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; at != filepath.Clean(os.TempDir()); at = filepath.Dir(at) {
		chmod(t, at, 0o755)
	}
	return dir
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

package strictyaml

import (
	"encoding/base64"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// standInHost returns what takes the place of a variable in a text. Two variables seldom have
// the same value, and some must not.
func standInHost(name string) string {
	label := strings.Trim(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "-")
	return label + ".placeholder.example"
}

// standInHash is a hash of a password that is not known.
const standInHash = "$argon2id$v=19$m=19456,t=2,p=1$RrfkpMVBL" +
	"LyDrfeeyA5a9Q$bFjfqTmfzrnftoyluhHHDAVaUiVi5Eewx/cCEGnHoXU"

// standInSecret returns what takes the place of the secret at path that a variable or a file has.
// It is long enough for a key, and in base64, as some keys are.
func (o *Options) standInSecret(name, path string) string {
	if slices.Contains(o.HashKeys, lastKey(path)) {
		return standInHash
	}
	return base64.StdEncoding.EncodeToString([]byte("in the place of the secret " + name))
}

// lastKey returns the key at the end of a path, also of a list whose element it leads to.
func lastKey(path string) string {
	key, _, _ := strings.Cut(path[strings.LastIndexByte(path, '.')+1:], "[")
	return key
}

// standIns are those for truth values and numbers.
var standIns = map[reflect.Kind]string{reflect.Bool: "false", reflect.Int: "1", reflect.Int64: "1",
	reflect.Float64: "1"}

// isURL matches the keys of URLs.
var isURL = regexp.MustCompile(`(url|uri)s?$`)

// standIn returns what takes the place of a variable that is the whole value at path. It fits
// most values of their kind.
func (o *Options) standIn(name, path string, t reflect.Type) string {
	host := standInHost(name)
	switch t {
	case durationType:
		return "1h"
	case secretType:
		return o.standInSecret(name, path)
	case reflect.TypeFor[*url.URL]():
		return "https://" + host
	case reflect.TypeFor[netip.Prefix]():
		return "192.0.2.0/24"
	}
	if number, ok := standIns[t.Kind()]; ok {
		return number
	}
	switch key := lastKey(path); {
	case strings.HasSuffix(key, "address"), strings.HasSuffix(key, "addresses"):
		return host + ":443"
	case key == "issuer", key == "origins", isURL.MatchString(key):
		return "https://" + host
	}
	return host
}

// unset returns what takes the place of a variable that is not set in the value s at path. It
// returns false if that is a mistake.
func (d *decoder) unset(s, path string, t reflect.Type) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		switch {
		case !d.Placeholders:
			return "", false
		case s == "${"+name+"}":
			d.stood[path] = true
			return d.standIn(name, path, t), true
		}
		d.stood[path] = true
		return standInHost(name), true
	}
}

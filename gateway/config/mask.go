package config

import (
	"regexp"
	"strings"
)

// masked is shown in place of a secret.
const masked = "[masked]"

var (
	// keyShape finds a key: at the start of a line, after a dash, in a flow
	// mapping, in quotes or not.
	keyShape = regexp.MustCompile(`(?:^|[\s{,\[])["']?([A-Za-z_][A-Za-z0-9_.-]*)["']?\s*:(?:\s|$|["'])`)
	// passwordHash finds a stored hash, whatever key it was put under.
	passwordHash = regexp.MustCompile(`\$(?:argon2|2[a-z]\$|apr1\$|[156]\$)\S*|\{S?SHA\d*\}\S*`)
	// userinfo finds the credentials in a URL.
	userinfo = regexp.MustCompile(`://[^/\s@]*@`)
)

// secretKeys are the keys that hold secrets.
var secretKeys = []string{"secret", "password", "client_secret", "password_hash", "encryption_key", "sentinel_password"}

// secretKey reports whether the value of a key may be a secret: that of a
// secret key, of one that a person has misspelt, and of one that says so. The
// x_file keys and htpasswd hold paths.
func secretKey(key string) bool {
	folded := strings.ToLower(key)
	if strings.HasSuffix(folded, "_file") || folded == "htpasswd" {
		return false
	}
	if strings.Contains(folded, "secret") || strings.Contains(folded, "passw") {
		return true
	}
	_, near := nearest(folded, secretKeys)
	return near
}

// maskYAML returns what shows line i of a YAML text with secrets masked. It
// goes by the text alone, because it must also work on what cannot be parsed:
// the rest of a line after a secret key is masked, and so is a line that goes
// on with the value of a secret key above.
func maskYAML(lines []string) func(i int) string {
	var hidden []bool // made when first needed
	return func(i int) string {
		if hidden == nil {
			hidden = continued(lines)
		}
		line := lines[i]
		if hidden[i] {
			return line[:indentation(line)] + masked
		}
		for _, found := range keyShape.FindAllStringSubmatchIndex(line, -1) {
			if !secretKey(line[found[2]:found[3]]) {
				continue
			}
			colon := found[3] + strings.IndexByte(line[found[3]:], ':') + 1
			if value := strings.TrimLeft(line[colon:], " \t"); value != "" {
				line = line[:len(line)-len(value)] + masked
			}
			break
		}
		return maskPatterns(line)
	}
}

// continued tells of each line whether it belongs to the value of a secret key
// on a line above. A line with a key hangs under the nearest line above whose
// key is further left; one without under the nearest line with a key.
func continued(lines []string) []bool {
	type open struct {
		column int
		secret bool
	}
	var stack []open
	hidden := make([]bool, len(lines))
	for i, line := range lines {
		content := strings.TrimLeft(line, " \t-")
		if content == "" || content[0] == '#' {
			continue
		}
		keys := keyShape.FindAllStringSubmatch(line, -1)
		column := len(line) - len(content)
		for keys != nil && len(stack) > 0 && stack[len(stack)-1].column >= column {
			stack = stack[:len(stack)-1]
		}
		hidden[i] = len(stack) > 0 && stack[len(stack)-1].secret
		if keys != nil {
			stack = append(stack, open{column, hidden[i] || secretKey(keys[len(keys)-1][1])})
		}
	}
	return hidden
}

// maskPatterns masks what is a secret by its looks.
func maskPatterns(line string) string {
	line = passwordHash.ReplaceAllString(line, masked)
	return userinfo.ReplaceAllString(line, "://"+masked+"@")
}

// indentation is the number of leading spaces and tabs.
func indentation(line string) int {
	return len(line) - len(strings.TrimLeft(line, " \t"))
}

// maskHtpasswd returns what shows a line of an htpasswd file without the hash.
func maskHtpasswd(lines []string) func(i int) string {
	return func(i int) string {
		name, _, found := strings.Cut(lines[i], ":")
		if !found {
			return maskPatterns(name)
		}
		return name + ":" + masked
	}
}

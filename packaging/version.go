package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

var (
	released   = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(?:-([0-9A-Za-z.]+))?(?:-(\d+)-(g[0-9a-f]+)|\+(g[0-9a-f]+))?$`)
	unreleased = regexp.MustCompile(`^[0-9a-f]{7,40}$`)
)

// fileVersion returns the version of a package, as Debian and RPM sort it, for what
// .ci/version or git describe prints. A pre-release is before its release, a commit after
// the release that it follows, and a commit without any is before all releases.
func fileVersion(described string, committed time.Time) (string, error) {
	clean, dirty := strings.CutSuffix(described, "-dirty")
	var number string
	var since []string
	if found := released.FindStringSubmatch(clean); found != nil {
		number = found[1]
		if found[2] != "" {
			number += "~" + found[2]
		}
		switch {
		case found[3] != "":
			since = []string{found[3], found[4]}
		case found[5] != "":
			since = []string{found[5]}
		}
	} else if unreleased.MatchString(clean) {
		number = "0.0~git" + committed.Format("20060102") + "." + clean
	} else {
		return "", fmt.Errorf("the version %q is neither a tag such as v1.2.3 nor a commit; "+
			"work in a git checkout, or set VERSION", described)
	}
	if dirty {
		since = append(since, "dirty")
	}
	if len(since) > 0 {
		number += "+" + strings.Join(since, ".")
	}
	return number, nil
}

// inChangelog reports whether the change log says what a release brings: a section with its
// version and its date. A version of no release has none.
func inChangelog(changelog []byte, number string) error {
	release, _, _ := strings.Cut(strings.ReplaceAll(number, "~", "-"), "+")
	if strings.HasPrefix(release, "0.0-git") {
		return nil
	}
	section := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(release) + ` - \d{4}-\d\d-\d\d$`)
	if !section.Match(changelog) {
		return fmt.Errorf("CHANGELOG.md has no section \"## %s - YYYY-MM-DD\", which a release needs", release)
	}
	return nil
}

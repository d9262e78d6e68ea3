package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
)

// The chart of a release has its version, the manifests in place of the link, and no secret.
func TestChart(t *testing.T) {
	r := sample(t)
	r.source = ".."
	name, content, err := r.chart()
	if err != nil || name != "authgate-1.2.3.tgz" {
		t.Fatal(name, err)
	}
	packed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	files, archive := map[string]string{}, tar.NewReader(packed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
	about := files["authgate/Chart.yaml"]
	if !strings.Contains(about, "\nversion: 1.2.3 ") || !strings.Contains(about, `appVersion: "1.2.3"`) {
		t.Errorf("Chart.yaml:\n%s", about)
	}
	for _, name := range []string{"values.yaml", "values.schema.json", "templates/deployment.yaml",
		"manifests/deployment.yaml", "manifests/podmonitor/podmonitor.yaml"} {
		if files["authgate/"+name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if files["authgate/manifests/secret.yaml.example"] != "" {
		t.Error("the example of a Secret is in the chart")
	}
}

// The version of the chart is one of Semantic Versioning.
func TestChartVersion(t *testing.T) {
	for number, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3~rc.1": "1.2.3-rc.1", "1.2.3+4.gabc": "1.2.3+4.gabc",
		"0.0~git20010203.0123abc+dirty": "0.0.0-git20010203.0123abc+dirty",
	} {
		if got := chartVersion(number); got != want {
			t.Errorf("%s: got %s, want %s", number, got, want)
		}
	}
}

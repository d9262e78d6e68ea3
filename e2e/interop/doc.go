// Command interop runs the gateway against programs that others wrote, prints a table of
// the tries, and writes it to docs/interop.md. Run it with
//
//	make interop
//	make interop ROWS='Keycloak|Dex'
//
// The rows are in a file for each topic, and function tables has their order. Each row
// names its tests. Most of them are tests that also belong to `make test`. Tests of
// counterparts that `make test` does not need, such as Keycloak, are behind the build
// tag interop.
//
// A row that a machine cannot run is listed as not tried, with the reason. A row that
// fails is listed as failed, and the exit status is 1. Rows that are not run keep
// their text in docs/interop.md.
package main

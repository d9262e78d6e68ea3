// Times in the zone and the words of the browser. Without this script they are in UTC.
for (const time of document.querySelectorAll("time[datetime]")) {
  const at = new Date(time.dateTime);
  if (!isNaN(at)) {
    time.textContent = at.toLocaleString(document.documentElement.lang, { dateStyle: "long", timeStyle: "short" });
  }
}

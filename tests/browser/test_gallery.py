"""The gallery is played without a kernel."""

from pathlib import Path

from playwright.sync_api import expect

from factory.gallery import LESSONS

GALLERY = Path(__file__).parents[2] / "docs" / "gallery.html"


def test_the_gallery_is_played_without_a_kernel(browser):
    """A stored step is shown; one that is not stored is answered in words, and nothing is lost."""
    page = browser.new_page()
    faults = []
    page.on("pageerror", lambda fault: faults.append(fault))
    page.goto(GALLERY.as_uri())
    for name in LESSONS:
        expect(page.locator(f"#{name} .devlab-explorer .caption")).not_to_be_empty()
    devices, allocator, crossover = map(page.locator, ("#devices", "#allocator", "#crossover"))
    devices.get_by_role("button", name="Send a gigabyte").click()
    expect(devices.locator(".caption")).to_contain_text("83 ms at best")
    allocator.get_by_role("button", name="Allocate", exact=True).click()
    expect(allocator.locator(".caption")).to_contain_text("Out of memory")
    before = crossover.locator("[data-id]").count()
    crossover.get_by_role("button", name="Measure this CPU").click()
    expect(crossover.locator(".caption")).to_contain_text("lesson 07")
    assert crossover.locator("[data-id]").count() == before
    assert faults == []
    page.close()

"""Content of commits: entries in sorted *ranges*, listed by a *metarange*; trees and diffs."""

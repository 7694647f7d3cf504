#pragma once

/// The format "semeval": SemEval-2010 task 8, blocks of an id, a tab and the quoted sentence with its <e1> and <e2>
/// marks; the relation; a comment; a blank line. The marks stay in the text. A block without a relation (the official
/// test file) is unlabelled.
